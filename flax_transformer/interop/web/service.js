// Keeps the site for use without a connection. VERSION, a line above, changes with any file.

const any = `flax-transformer ${self.registration.scope} `;
const own = any + VERSION;

self.addEventListener('install', (event) => {
  const fill = async () => {
    const { sha256 } = await (await fetch('export.json', { cache: 'no-cache' })).json();
    await (await caches.open(own)).addAll(['./', 'export.json', ...Object.keys(sha256)]);
    await self.skipWaiting();
  };
  event.waitUntil(fill());
});

self.addEventListener('activate', (event) => {
  const clear = async () => {
    const others = (await caches.keys()).filter((name) => name.startsWith(any) && name !== own);
    await Promise.all(others.map((name) => caches.delete(name)));
    await self.clients.claim();
  };
  event.waitUntil(clear());
});

self.addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET') return;
  const reply = async () => (await (await caches.open(own)).match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
  event.respondWith(reply());
});
