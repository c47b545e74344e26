// Shows openapi.json as a page.
'use strict';

function add(parent, tag, text = '') {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
}

function typeOf(schema) {
  return schema.type || (schema.enum || []).join(' or ') || (schema.oneOf || []).map(typeOf).join(' or ');
}

async function show() {
  const api = await (await fetch('../openapi.json')).json();
  document.getElementById('about').textContent = api.info.description;
  const routes = document.getElementById('routes');
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const section = add(routes, 'section');
      add(section, 'h2', `${method.toUpperCase()} ${path}`);
      add(section, 'p', operation.summary);
      const { schema } = Object.values(operation.requestBody?.content || [{}])[0]; // of JSON, or of a form with a file
      const fields = schema
        ? Object.entries(schema.properties).map(([name, kind]) => [name, kind, schema.required?.includes(name)])
        : (operation.parameters || []).map((each) => [each.name, each.schema, false]);
      if (fields.length) {
        const list = add(section, 'ul');
        for (const [name, kind, required] of fields) {
          const item = add(list, 'li');
          add(item, 'code', name);
          item.append(` ${typeOf(kind)}${required ? ', required' : ''}`);
        }
      }
      const codes = Object.entries(operation.responses).filter(([code]) => code !== '200');
      if (codes.length) add(section, 'p', codes.map(([code, each]) => `${code}: ${each.description}`).join('; '));
    }
  }
}

show();
