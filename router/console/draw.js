// Elements, lists that keep theirs from one answer to the next, bars and sparklines. Text goes in as text: nothing that
// a client or an operator named can become HTML.

const SVG = 'http://www.w3.org/2000/svg';

// element('p', {class: 'muted'}, 'text', child, …)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

function setAttributes(target, attributes) {
  for (const [name, value] of Object.entries(attributes)) target.setAttribute(name, value);
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// Makes the children of `parent` those of `items`, in their order. An item that was there keeps its element, with the
// focus, the selection and what is open in it.
export function reconcile(parent, items, keyOf, create, update = () => {}) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    known.delete(key);
    if (child === undefined) {
      child = create(item);
      child.dataset.key = key;
    }
    if (child === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(child, place);
    }
    update(child, item);
  }
  for (const child of known.values()) child.remove();
}

// A list of rows under one line of headings, which on a narrow screen move into the rows. `columns` are the headings.
export function rows(columns, kind) {
  const head = element('div', { class: `row head ${kind}`, 'aria-hidden': 'true' },
    ...columns.map((name) => element('span', {}, name)));
  const list = element('ul', { class: 'rows' });
  return { whole: element('div', {}, head, list), list };
}

// A cell of such a row. Its heading is there for screen readers, and on a narrow screen for everyone.
export function cell(name, ...children) {
  return element('div', { class: 'cell' }, element('span', { class: 'label' }, name), ...children);
}

// A bar that is `share` long, from 0 to 1. The text beside it says the same.
export function bar(kind = '') {
  return element('span', { class: `bar ${kind}`, 'aria-hidden': 'true' }, element('span', {}));
}

export function setBar(target, share) {
  const part = Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : 0;
  target.firstElementChild.style.inlineSize = `${(part * 100).toFixed(1)}%`;
}

const WIDTH = 120;
const HEIGHT = 28;

export function sparkline() {
  return svg('svg', { class: 'spark', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' });
}

// `lines`: arrays of [place, value], with places from 0 to 1 from left to right; a value of null is a gap. `most` fixes
// the upper end of the scale, which otherwise is the highest value. `label` is what a screen reader says.
export function setSparkline(target, lines, label, most) {
  target.setAttribute('aria-label', label);
  const values = lines.flat().map(([, value]) => value).filter((value) => value !== null);
  const top = most ?? Math.max(...values, Number.MIN_VALUE);
  target.replaceChildren(...lines.map((line, i) => svg('path', { d: pathOf(line, top), class: `line${i}` })));
}

function pathOf(line, top) {
  let path = '';
  let isDown = false;
  for (const [place, value] of line) {
    if (value !== null) {
      const x = (place * WIDTH).toFixed(1);
      const y = (HEIGHT - 1.5 - (HEIGHT - 3) * Math.min(1, value / top)).toFixed(1);
      // A point between two gaps is a dot.
      path += isDown ? `L${x} ${y}` : `M${x} ${y}h.01`;
    }
    isDown = value !== null;
  }
  return path;
}

// What stands in a panel that has nothing to show: what that means, and what to do, with a command to copy.
export function nothing(text, command) {
  return element('div', { class: 'nothing' }, element('p', {}, text),
    command === undefined ? null : element('pre', { tabindex: '0' }, element('code', {}, command)));
}
