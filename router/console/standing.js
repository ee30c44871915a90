// How the router stands: the line on top, which roostctl says too, who was lost, and what happened last.

import { cell, element, nothing, reconcile, rows, setText } from './draw.js';
import { age, clockTime, plural } from './format.js';

const KIND_OF_LEVEL = { ok: 'good', degraded: 'warn', down: 'bad' };

export class VerdictLine {
  constructor(line) {
    this.line = line;
  }

  // Of one model, or with undefined of all.
  show(told, model) {
    const one = model === undefined ? undefined : told.models.find((each) => each.id === model);
    const level = one?.level ?? told.verdict.level;
    this.line.className = `verdict card ${KIND_OF_LEVEL[level] ?? ''}`;
    setText(this.line, one === undefined ? told.verdict.text : `${one.id}: ${one.text}`);
  }
}

// By the router's names of reasons.
const WHY = {
  silent: 'silent: nothing was heard of it', restarted: 'it began anew', broken_link: 'messages were lost on the link',
  unreachable: 'its connection is gone', stalled: 'stalled: its engine made no progress',
};

// "3 continue elsewhere, 1 failed"
function fateOf(lost) {
  const parts = [
    [lost.moved_requests, 'continue elsewhere'], [lost.waiting_requests, 'wait'], [lost.failed_requests, 'failed'],
  ].filter(([number]) => number > 0).map(([number, what]) => `${number} ${what}`);
  return parts.length > 0 ? parts.join(', ') : 'it had none';
}

// Workers that were lost in the last ten minutes.
export class Lost {
  constructor(section, parent, note) {
    this.section = section;
    this.note = note;
    this.table = rows(['Worker', 'Model', 'Lost', 'Why', 'Its requests'], 'lost');
    parent.append(this.table.whole);
  }

  show(lost) {
    this.section.hidden = lost.length === 0;
    const away = lost.filter((each) => !each.back).length;
    setText(this.note, `in the last ten minutes; ${away === 0 ? 'all are back' : `${plural(away, 'worker')} away`}`);
    reconcile(this.table.list, lost, (each) => each.id, create, update);
  }
}

function create() {
  const row = element('li', { class: 'row lost' });
  row.parts = { name: element('strong', { class: 'name' }), model: element('span'), since: element('span'), why: element('span'), fate: element('span') };
  const of = row.parts;
  row.append(cell('Worker', of.name), cell('Model', of.model), cell('Lost', of.since), cell('Why', of.why), cell('Its requests', of.fate));
  return row;
}

function update({ parts }, lost) {
  setText(parts.name, lost.id);
  setText(parts.model, lost.model);
  setText(parts.since, `${age(lost.seconds_ago)} ago${lost.back ? '; it is back' : ''}`);
  parts.since.className = lost.back ? '' : 'bad';
  setText(parts.why, WHY[lost.reason] ?? lost.reason.replaceAll('_', ' '));
  setText(parts.fate, fateOf(lost));
}

export class Events {
  constructor(parent) {
    this.parent = parent;
    this.list = element('ol', { class: 'events' });
    this.told = '';
    this.none = nothing('Nothing has happened since the router began.');
  }

  show(events) {
    if (events.length === 0) return this.parent.replaceChildren(this.none);
    if (this.list.parentElement !== this.parent) this.parent.replaceChildren(this.list);
    // Of the same events the list stays, with what is selected in it.
    const told = events.map((event) => `${event.worker}/${event.model}/${event.what}`).join('\n');
    if (told === this.told) return;
    this.told = told;
    this.list.replaceChildren(...events.map((event) => element('li', {},
      element('span', { class: 'muted' }, clockTime(new Date(event.unix_seconds * 1000))),
      element('strong', {}, event.worker === '' ? event.model : event.worker), element('span', {}, event.what),
      element('span', { class: 'muted' }, event.worker === '' ? '' : event.model))));
  }
}
