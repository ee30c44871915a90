// The prefixes that requests found most often, and who holds them. Their text only if the operator lets the router
// tell it.

import { bar, cell, element, nothing, reconcile, rows, setBar, setText } from './draw.js';
import { count, plural } from './format.js';

const COLUMNS = ['Prefix', 'Tokens', 'Found', 'Held by'];
export const MOST_PREFIXES = 10;

export class Prefixes {
  constructor(parent, note) {
    this.note = note;
    this.parent = parent;
    this.table = rows(COLUMNS, 'prefix');
    this.hidden = element('p', { class: 'muted' });
  }

  // `answers`: one per model.
  show(answers) {
    const all = answers.flatMap((answer) => answer.prefixes.map((prefix) => ({ ...prefix, model: answer.model })));
    const shown = all.sort((a, b) => b.hits - a.hits || b.tokens - a.tokens).slice(0, MOST_PREFIXES);
    const silent = answers.flatMap((answer) => answer.workers).filter((worker) => !worker.answered).length;
    setText(this.note, silent > 0 ? `${plural(silent, 'worker')} did not answer` : 'counted by the workers');
    if (shown.length === 0) return this.showNothing('No request has found a cached prefix yet. It takes two prompts that begin with the same 16 tokens or more; static parts go first, changing parts last.');
    const hasText = shown.some((prefix) => prefix.begins !== undefined);
    setText(this.hidden, hasText ? '' : 'The text of prompts is hidden here. A router that runs with --show-prefix-text shows how each begins and ends.');
    if (this.table.whole.parentElement !== this.parent) this.parent.replaceChildren(this.table.whole, this.hidden);
    const severalModels = answers.length > 1;
    reconcile(this.table.list, shown, (prefix) => `${prefix.model}/${prefix.hash}`, create,
      (row, prefix) => update(row, prefix, shown[0].hits, severalModels));
  }

  showNothing(text, command) {
    this.parent.replaceChildren(nothing(text, command));
  }
}

function create() {
  const row = element('li', { class: 'row prefix' });
  row.parts = {
    begins: element('span', { class: 'quoted' }), ends: element('span', { class: 'quoted' }),
    hash: element('code', { class: 'muted small' }), tokens: element('span'), blocks: element('span', { class: 'muted small' }),
    hits: bar('good'), hitsText: element('span'), holders: element('span', { class: 'chips' }),
  };
  const of = row.parts;
  row.append(cell('Prefix', element('span', { class: 'quote' }, of.begins, of.ends), of.hash), cell('Tokens', of.tokens, of.blocks),
    cell('Found', of.hits, of.hitsText), cell('Held by', of.holders));
  return row;
}

function oneLine(text) {
  return text.replace(/\s+/g, ' ').trim();
}

function update({ parts }, prefix, most, severalModels) {
  // A prefix of one block has one text.
  setText(parts.begins, prefix.begins === undefined ? '' : `“${oneLine(prefix.begins)}`);
  setText(parts.ends, prefix.ends === undefined ? '' : `${prefix.begins === undefined ? '“' : ' ⋯ '}${oneLine(prefix.ends)}”`);
  setText(parts.hash, `${prefix.hash}${severalModels ? ` · ${prefix.model}` : ''}`);
  setText(parts.tokens, count(prefix.tokens));
  setText(parts.blocks, `in ${plural(prefix.blocks, 'block')}`);
  setBar(parts.hits, prefix.hits / Math.max(1, most));
  setText(parts.hitsText, `${plural(prefix.hits, 'time')}`);
  reconcile(parts.holders, prefix.workers, (holder) => holder.worker, (holder) => element('span', { class: 'chip' }, holder.worker),
    (chip, holder) => { chip.title = `found there ${plural(holder.hits, 'time')}`; });
}
