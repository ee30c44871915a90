// What each API key has used since the router began.

import { bar, cell, element, nothing, reconcile, rows, setBar, setText } from './draw.js';
import { count, percent, plural } from './format.js';

const COLUMNS = ['Key', 'Requests', 'Prompt tokens', 'Cached', 'Output tokens', 'Refused'];
const MOST_SHOWN = 50;

export class Keys {
  constructor(parent, note) {
    this.note = note;
    this.parent = parent;
    this.table = rows(COLUMNS, 'key');
    this.more = element('p', { class: 'muted' });
    this.none = nothing('The API takes requests without a key. Keys give clients names, tenants and limits:',
      'roostctl key new chat-app --tenant acme >> keys.jsonl\nroost-router --api-keys keys.jsonl …');
  }

  show(keys) {
    if (keys.length === 0) {
      setText(this.note, 'none');
      this.parent.replaceChildren(this.none);
      return;
    }
    if (this.table.whole.parentElement !== this.parent) this.parent.replaceChildren(this.table.whole, this.more);
    setText(this.note, `${plural(keys.length, 'key')}, used since the router began`);
    const shown = [...keys].sort((a, b) => b.prompt_tokens - a.prompt_tokens || a.name.localeCompare(b.name)).slice(0, MOST_SHOWN);
    reconcile(this.table.list, shown, (key) => key.name, create, update);
    const left = keys.length - shown.length;
    setText(this.more, left > 0 ? `${plural(left, 'key')} with fewer tokens: roostctl usage lists all.` : '');
  }
}

function create() {
  const row = element('li', { class: 'row key' });
  row.parts = {
    name: element('strong', { class: 'name' }), requests: element('span'), prompt: element('span'), cached: bar('good'),
    cachedText: element('span'), output: element('span'), refused: element('span'),
  };
  const of = row.parts;
  row.append(cell('Key', of.name), cell('Requests', of.requests), cell('Prompt tokens', of.prompt),
    cell('Cached', of.cached, of.cachedText), cell('Output tokens', of.output), cell('Refused', of.refused));
  return row;
}

function update({ parts }, key) {
  const share = key.prompt_tokens > 0 ? key.cached_tokens / key.prompt_tokens : null;
  setText(parts.name, key.name);
  setText(parts.requests, count(key.requests));
  setText(parts.prompt, count(key.prompt_tokens));
  setBar(parts.cached, share);
  setText(parts.cachedText, percent(share));
  setText(parts.output, count(key.output_tokens));
  setText(parts.refused, count(key.refused_requests));
  parts.refused.className = key.refused_requests > 0 ? 'warn' : 'muted';
}
