// The page's language. All texts are in index.html, German ones as data-de and data-de-label.

export const part = (name) => document.getElementById(name);

// A message, its {} replaced by the values.
export function text(key, ...values) {
  return values.reduce((message, value) => message.replace('{}', () => value), part(`say-${key}`).textContent);
}

export function speak(language) {
  for (const one of document.querySelectorAll('[data-de]')) {
    one.dataset.en ??= one.innerHTML;
    one.innerHTML = one.dataset[language];
  }
  for (const one of document.querySelectorAll('[data-de-label]')) {
    one.dataset.enLabel ??= one.ariaLabel;
    one.ariaLabel = one.dataset[`${language}Label`];
  }
  document.documentElement.lang = language;
  document.title = document.querySelector('h1').textContent;
}
