// The pairs of workers between which blocks travel, those that fail first.

import { cell, element, reconcile, rows, setText } from './draw.js';
import { age, bytesPerSecond, count, plural, seconds } from './format.js';

const COLUMNS = ['From', 'To', 'Rate', 'First byte after', 'In flight', 'Done', 'Failed', 'Last'];
const MOST_SHOWN = 50;

const fails = (pair) => pair.paused_seconds > 0;

export class Transfers {
  constructor(section, parent, note) {
    this.section = section;
    this.note = note;
    this.table = rows(COLUMNS, 'transfer');
    this.more = element('p', { class: 'muted' });
    parent.append(this.table.whole, this.more);
  }

  // The latest first, as the router tells them; only if there are any.
  show(pairs, pulls) {
    this.section.hidden = pairs.length === 0;
    const failing = pairs.filter(fails);
    setText(this.note, `${plural(pairs.length, 'pair')} of workers${failing.length > 0 ? `, ${count(failing.length)} paused` : ''}${pulls === 'off' ? '; requests fetch no blocks (--pulls off)' : ''}`);
    const shown = [...failing, ...pairs.filter((pair) => !fails(pair))].slice(0, MOST_SHOWN);
    reconcile(this.table.list, shown, (pair) => `${pair.from}/${pair.to}`, create, update);
    const left = pairs.length - shown.length;
    setText(this.more, left > 0 ? `${plural(left, 'pair')} more: roostctl transfers lists all.` : '');
  }
}

function create() {
  const row = element('li', { class: 'row transfer' });
  row.parts = {
    from: element('strong', { class: 'name' }), to: element('strong', { class: 'name' }), rate: element('span'), start: element('span'),
    inFlight: element('span'), done: element('span'), failed: element('span'), last: element('span'),
  };
  const of = row.parts;
  row.append(cell('From', of.from), cell('To', of.to), cell('Rate', of.rate), cell('First byte after', of.start),
    cell('In flight', of.inFlight), cell('Done', of.done), cell('Failed', of.failed), cell('Last', of.last));
  return row;
}

function update({ parts }, pair) {
  setText(parts.from, pair.from);
  setText(parts.to, pair.to);
  setText(parts.rate, bytesPerSecond(pair.bytes_per_second));
  setText(parts.start, seconds(pair.start_seconds));
  setText(parts.inFlight, count(pair.in_flight));
  setText(parts.done, count(pair.done));
  setText(parts.failed, count(pair.failed));
  parts.failed.className = pair.failed > 0 ? 'warn' : 'muted';
  const cause = pair.last_cause == null ? '' : ` (${pair.last_cause})`;
  setText(parts.last, `${pair.last_outcome ?? 'none yet'}${cause}${fails(pair) ? `; paused for ${age(pair.paused_seconds)}` : ''}`);
  parts.last.className = fails(pair) ? 'bad' : '';
}
