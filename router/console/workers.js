// The workers: their state, load and memory, and what share of the requests each gets.

import { bar, cell, element, nothing, reconcile, rows, setBar, setText } from './draw.js';
import { age, bytes, count, percent, plural } from './format.js';

const MOST_SHOWN = 100;
const WINDOW_SECONDS = 60;
const SILENT_SECONDS = 2;
const COLUMNS = ['Worker', 'Model', 'State', 'Requests', 'KV blocks in use', 'KV blocks cached', 'Index', 'Share of requests'];
const MODES = {
  exact: 'the router knows every block, by the worker’s events',
  predicted: 'the router goes by what it sent there',
  blind: 'the router knows nothing of the cache; load alone decides',
};

// Others, starting, cordoned and draining, are as somebody wanted it.
const KIND_OF_STATE = { ready: 'good', away: 'bad', stalled: 'bad', ejected: 'bad' };

function stateOf(worker) {
  if (worker.seconds_since_heard >= SILENT_SECONDS) return [`silent for ${age(worker.seconds_since_heard)}`, 'bad'];
  const state = worker.state === 'away' ? `engine away for ${age(worker.engine_away_seconds)}` : worker.state;
  return [state, KIND_OF_STATE[worker.state] ?? 'warn'];
}

// How many requests each worker got in the last minute.
export class Shares {
  counts = [];

  add(workers, time) {
    this.counts.push({ time, of: new Map(workers.map((worker) => [worker.id, worker.requests_total])) });
    while (this.counts.length > 2 && this.counts[1].time < time - WINDOW_SECONDS) this.counts.shift();
  }

  forget() {
    this.counts = [];
  }

  // A worker that was not there, or began anew, began at zero.
  recent(id) {
    const now = this.counts.at(-1).of.get(id) ?? 0;
    const before = this.counts[0].of.get(id) ?? 0;
    return now >= before ? now - before : now;
  }
}

export class Workers {
  constructor(parent, note) {
    this.note = note;
    this.parent = parent;
    this.table = rows(COLUMNS, 'worker');
    this.none = nothing('No worker is connected. Start one, with this router’s --link-address; it brings its model along:',
      'roost-worker --model deploy/demo-model --router tcp://127.0.0.1:7001');
    this.more = element('p', { class: 'muted' });
  }

  // `away`: how many others were lost in the last ten minutes and are not back.
  show(workers, shares, away) {
    if (workers.length === 0) {
      setText(this.note, '');
      this.parent.replaceChildren(this.none);
      return;
    }
    if (this.table.whole.parentElement !== this.parent) this.parent.replaceChildren(this.table.whole, this.more);
    const recent = workers.reduce((total, worker) => total + shares.recent(worker.id), 0);
    const ever = workers.reduce((total, worker) => total + worker.requests_total, 0);
    const ready = workers.filter((worker) => worker.state === 'ready').length;
    const blocks = workers.reduce((total, worker) => total + worker.blocks, 0);
    const cached = workers.reduce((total, worker) => total + worker.cached_blocks * worker.block_tokens, 0);
    setText(this.note, `${ready} of ${workers.length} ready${away > 0 ? `, ${plural(away, 'more worker')} lost` : ''}; ${count(blocks)} blocks, ${count(cached)} tokens cached`);
    const busiest = [...workers].sort((a, b) => b.requests_total - a.requests_total || a.id.localeCompare(b.id));
    const shown = busiest.slice(0, MOST_SHOWN).sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
    reconcile(this.table.list, shown, (worker) => `${worker.model}/${worker.id}`, create,
      (row, worker) => update(row, worker, { shares, recent, ever }));
    const left = workers.length - shown.length;
    setText(this.more, left > 0 ? `${plural(left, 'worker')} with fewer requests: roostctl status lists all.` : '');
  }
}

function create() {
  const part = (tag, kind) => element(tag, { class: kind });
  const row = element('li', { class: 'row worker' });
  row.parts = {
    name: part('strong', 'name'), place: part('span', 'muted small'), model: part('span', ''), release: part('span', 'muted small'), state: part('span', 'state-dot'), load: part('span', ''),
    queued: part('span', 'muted small'), used: bar('use'), usedText: part('span', ''),
    free: part('span', 'muted small'), cached: bar('good'), cachedText: part('span', ''), held: part('span', 'muted small'),
    mode: part('span', ''), index: part('span', 'muted small'), share: bar(''), shareText: part('span', ''),
    shareOf: part('span', 'muted small'),
  };
  const of = row.parts;
  row.append(cell('Worker', of.name, of.place), cell('Model', of.model, of.release), cell('State', of.state), cell('Requests', of.load, of.queued),
    cell('KV blocks in use', of.used, of.usedText, of.free), cell('KV blocks cached', of.cached, of.cachedText, of.held),
    cell('Index', of.mode, of.index), cell('Share of requests', of.share, of.shareText, of.shareOf));
  return row;
}

// Blocks of other workers on their way to it, and its own on their way to others.
function travels(worker) {
  const way = (value, verb) => (value > 0 ? `; ${bytes(value)} ${verb}` : '');
  return way(worker.arriving_bytes, 'come') + way(worker.leaving_bytes, 'leave');
}

function update({ parts }, worker, { shares, recent, ever }) {
  const [state, kind] = stateOf(worker);
  const used = worker.blocks - worker.free_blocks;
  const pinned = worker.pinned_blocks > 0 ? `, ${count(worker.pinned_blocks)} blocks pinned` : '';
  const share = recent > 0 ? shares.recent(worker.id) / recent : worker.requests_total / Math.max(1, ever);
  setText(parts.name, worker.id);
  const role = worker.role === 'both' ? '' : `for ${worker.role}`;
  setText(parts.place, [role, worker.host === '' ? '' : `on ${worker.host}`].filter((text) => text !== '').join(', '));
  setText(parts.model, worker.model);
  const release = worker.release === '' ? `protocol ${worker.protocol}` : `release ${worker.release}`;
  setText(parts.release, worker.engine === '' ? release : `${release}, beside ${worker.engine}`);
  setText(parts.state, state);
  parts.state.className = `state-dot ${kind}`;
  parts.state.title = worker.engine_absence;
  setText(parts.load, `${count(worker.running_requests)} running, ${count(worker.waiting_requests)} waiting`);
  setText(parts.queued, `${count(worker.queued_prefill_tokens)} tokens to prefill; ${count(worker.in_flight_requests)} from here${travels(worker)}`);
  setBar(parts.used, used / worker.blocks);
  setText(parts.usedText, percent(used / worker.blocks));
  setText(parts.free, `${count(worker.free_blocks)} of ${count(worker.blocks)} free`);
  setBar(parts.cached, worker.cached_blocks / worker.blocks);
  setText(parts.cachedText, percent(worker.cached_blocks / worker.blocks));
  const onDisk = worker.disk_blocks > 0 || worker.disk_bytes_per_second > 0
    ? `; ${count(worker.disk_blocks * worker.block_tokens)} on disk${worker.disk_bytes_per_second > 0 ? '' : ', which is off'}` : '';
  setText(parts.held, `${count(worker.cached_blocks * worker.block_tokens)} tokens held${pinned}${onDisk}`);
  setText(parts.mode, worker.mode === 'exact' && !worker.index_in_sync ? 'exact, awaits a snapshot' : worker.mode);
  parts.mode.title = [MODES[worker.mode] ?? '', worker.cache_absence].filter((text) => text !== '').join(': ');
  parts.mode.className = worker.mode === 'exact' && worker.index_in_sync ? '' : 'warn';
  setText(parts.index, `${count(worker.indexed_blocks)} blocks`);
  setBar(parts.share, share);
  setText(parts.shareText, percent(ever > 0 ? share : null));
  setText(parts.shareOf, recent > 0 ? `${count(shares.recent(worker.id))} in the last minute` : ever > 0 ? 'of all so far' : 'no request yet');
}
