// What all parts of the page share: its elements, the key, and requests to the server.

export const at = (id) => document.getElementById(id);

export function make(tag, text = '', properties = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  return Object.assign(element, properties);
}

// The reply to a JSON object, to a form, or to a request without either. Throws an Error whose message is for the user.
export async function ask(path, body, signal, method = 'POST') {
  const headers = {};
  const isForm = body instanceof FormData;
  if (!isForm) headers['Content-Type'] = 'application/json';
  if (at('key').value) headers.Authorization = `Bearer ${at('key').value}`;
  let response;
  try {
    const content = isForm ? body : body && JSON.stringify(body);
    response = await fetch(path, { method, headers, body: content, signal });
  } catch {
    throw new Error('The server cannot be reached.');
  }
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(reply.error || `The server answered ${response.status}.`);
  return reply;
}

export function showError(message) {
  at('error').textContent = message;
  at('failure').hidden = !message;
}

// The key stays until the tab is closed. `changed` is called when another is typed.
export function keepKey(changed) {
  try {
    at('key').value = sessionStorage.getItem('key') || '';
    at('key').addEventListener('change', () => sessionStorage.setItem('key', at('key').value));
  } catch {
    // A browser that allows no storage: it is typed again after a reload.
  }
  at('key').addEventListener('change', changed);
  at('key-row').addEventListener('submit', (event) => event.preventDefault()); // Enter changes the key, too
}
