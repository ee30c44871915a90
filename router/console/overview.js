// The tiles: what clients see now, over a sliding window of the last minute, and how it went in the last five.

import { element, setSparkline, setText, sparkline } from './draw.js';
import { age, count, percent, rate, seconds } from './format.js';
import { buckets, parse, quantile, sum } from './prometheus.js';

const WINDOW_SECONDS = 60;
const HISTORY_SECONDS = 300;
const SMOOTHED_SECONDS = 10;  // of one point of a sparkline
// What generations count under that ended as their client wanted, or as it no longer cares.
const ENDED_WELL = new Set(['stop', 'length', 'tool_calls', 'client_gone']);

// What the cache has saved, or left to compute, by the workers' own count, of those that are connected.
function countedBy(workers, model, member) {
  return workers.filter((worker) => model === undefined || worker.model === model)
    .reduce((total, worker) => total + worker[member], 0);
}

// What the tiles need of one reading of /metrics, for one model or, with undefined, for all.
function reading(families, model) {
  const of = (name, labels = {}) => sum(families, `roost_router_${name}`, { model, ...labels });
  const ended = { all: 0, byError: new Map() };
  for (const { labels, value } of families.get('roost_router_generations_total') ?? []) {
    if (model !== undefined && labels.model !== model) continue;
    ended.all += value;
    if (!ENDED_WELL.has(labels.outcome)) {
      ended.byError.set(labels.outcome, (ended.byError.get(labels.outcome) ?? 0) + value);
    }
  }
  return {
    prompt: of('prompt_tokens_total'),
    cached: of('cached_tokens_total'),
    output: of('output_tokens_total'),
    predicted: of('predicted_cached_tokens_total'),
    predictionError: of('prediction_error_tokens_total'),
    requests: of('ttft_seconds_count'),
    predictions: of('predicted_ttft_seconds_count'),
    ttft: buckets(families, 'roost_router_ttft_seconds', { model }),
    routed: {
      chosen: of('routed_matched_tokens_total', { choice: 'chosen' }),
      rotated: of('routed_matched_tokens_total', { choice: 'round_robin' }),
      chosenSaved: of('saved_prefill_seconds_total', { choice: 'chosen' }),
      rotatedSaved: of('saved_prefill_seconds_total', { choice: 'round_robin' }),
      chosenSeconds: of('routed_ttft_seconds_total', { choice: 'chosen' }),
      rotatedSeconds: of('routed_ttft_seconds_total', { choice: 'round_robin' }),
    },
    ended,
  };
}

// The readings of the last minutes.
export class History {
  readings = [];

  // Every counter only grows while one router runs. So one that shrank means another process, of which nothing that
  // came before tells anything.
  add(text, time, queued, workers) {
    const families = parse(text);
    const last = this.readings.at(-1);
    const total = (of) => sum(of, 'roost_router_prompt_tokens_total') + sum(of, 'roost_router_decisions_total');
    if (last !== undefined && total(families) < total(last.families)) this.readings = [];
    this.readings.push({ time, families, queued, workers });
    while (this.readings[0].time < time - HISTORY_SECONDS) this.readings.shift();
  }

  forget() {
    this.readings = [];
  }
}

function difference(now, before) {
  const spent = now.time - before.time;
  const of = (name) => now[name] - before[name];
  const errors = new Map();
  for (const [name, value] of now.ended.byError) {
    const more = value - (before.ended.byError.get(name) ?? 0);
    if (more > 0) errors.set(name, more);
  }
  return {
    spent,
    prompt: of('prompt'),
    cached: of('cached'),
    output: of('output'),
    requests: of('requests'),
    // A worker that leaves takes its count along.
    saved: Math.max(0, of('saved')),
    computed: Math.max(0, of('computed')),
    p50: quantile(0.5, now.ttft, before.ttft),
    p99: quantile(0.99, now.ttft, before.ttft),
    ended: now.ended.all - before.ended.all,
    errors,
    failed: [...errors.values()].reduce((total, value) => total + value, 0),
  };
}

function ratio(part, whole) {
  return whole > 0 ? part / whole : null;
}

// "59 ms", or of what lies beyond the histogram's last bound "> 250 s".
function quantileText(found) {
  if (found === null) return seconds(undefined);
  return found.above === undefined ? seconds(found.value) : `> ${seconds(found.above)}`;
}

function quantileValue(found) {
  return found === null ? null : (found.value ?? found.above);
}

// Seconds that a worker needs for a prompt token, by what the decisions predict for the tokens that are not cached.
// Null while no worker's speed is known.
export function secondsPerToken(decisions) {
  let spent = 0;
  let tokens = 0;
  for (const decision of decisions) {
    const chosen = decision.candidates.find((candidate) => candidate.worker === decision.worker);
    if (!decision.rates_known || chosen === undefined) continue;
    spent += chosen.prefill_seconds;
    tokens += decision.prompt_tokens - chosen.matched_tokens;
  }
  return tokens > 0 && spent > 0 ? spent / tokens : null;
}

function queueOf(queues, model) {
  const shown = queues.filter((queue) => model === undefined || queue.model === model);
  return {
    waiting: shown.reduce((total, queue) => total + queue.waiting_requests, 0),
    oldest: Math.max(0, ...shown.map((queue) => queue.oldest_wait_seconds)),
    drain: Math.max(0, ...shown.map((queue) => queue.drain_seconds)),
  };
}

// A tile's content: its value, what stands below, and the lines of its sparkline.
function contents({ now, recent, points, queues, model, inFlight }) {
  const span = age(recent.spent);
  const none = `no request in the last ${span}`;
  const ever = ratio(now.cached, now.prompt);
  const timeShare = (of) => ratio(of.saved, of.saved + of.computed);
  const tokenShare = ratio(recent.cached, recent.prompt);
  const ofTokens = `of ${count(recent.prompt)} prompt tokens`;
  // What was routed a moment ago is not among the prompts yet.
  const share = (tokens) => (now.prompt > 0 ? Math.min(1, tokens / now.prompt) : null);
  const mean = (spent) => ratio(spent, now.predictions);
  const queue = queueOf(queues, model);
  const line = (of) => points.map((point) => [point.place, of(point)]);
  return {
    hits: {
      value: percent(timeShare(recent) ?? tokenShare),
      below: [recent.prompt === 0 ? none
        : timeShare(recent) === null ? `${ofTokens} in ${span}` : `of prefill time in ${span}; ${percent(tokenShare)} ${ofTokens}`,
        `tokens since the router began ${percent(ever)}`],
      lines: [line((point) => timeShare(point) ?? ratio(point.cached, point.prompt))],
      most: 1,
    },
    saved: {
      value: seconds(now.saved),
      below: [`by the connected workers’ count; now ${rate(recent.saved / recent.spent)} s per second`,
        `since the router began ${seconds(now.routed.chosenSaved)}, ${seconds(now.routed.chosenSaved - now.routed.rotatedSaved)} beyond round robin`],
      lines: [line((point) => point.saved / point.spent)],
    },
    ttft: {
      value: `${quantileText(recent.p50)} / ${quantileText(recent.p99)}`,
      below: [recent.requests > 0 ? `p50 / p99 of ${count(recent.requests)} in ${span}` : none,
        'estimated from a histogram'],
      lines: [line((point) => quantileValue(point.p99)), line((point) => quantileValue(point.p50))],
    },
    tokens: {
      value: rate(recent.output / recent.spent),
      below: [`generated; ${rate(recent.prompt / recent.spent)} prompt tokens/s`,
        `${rate(recent.requests / recent.spent)} requests/s`],
      lines: [line((point) => point.output / point.spent)],
    },
    queue: {
      value: count(queue.waiting),
      below: [queue.waiting > 0 ? `oldest ${age(queue.oldest)}; empty in ${age(queue.drain)}` : 'nobody waits at the router',
        `${count(inFlight)} at workers`],
      lines: [line((point) => point.queued)],
    },
    errors: {
      value: percent(ratio(recent.failed, recent.ended)),
      below: [recent.ended > 0 ? `${count(recent.failed)} of ${count(recent.ended)} in ${span}` : `none ended in the last ${span}`,
        recent.failed > 0 ? [...recent.errors].map(([name, times]) => `${name} ${count(times)}`).join(', ') : 'of generations that ended'],
      lines: [line((point) => ratio(point.failed, point.ended))],
      most: 1,
      isBad: recent.failed > 0,
    },
    routing: {
      value: `${percent(share(now.routed.chosen))} / ${percent(share(now.routed.rotated))}`,
      below: ['of all prompt tokens since the router began',
        `predicted first token ${seconds(mean(now.routed.chosenSeconds))} / ${seconds(mean(now.routed.rotatedSeconds))}`],
      lines: [],
    },
    prediction: {
      value: percent(now.prompt > 0 ? 1 - now.predictionError / now.prompt : null),
      below: ['of prompt tokens: cached or not', `${count(now.predicted)} predicted cached, ${count(now.cached)} were`],
      lines: [],
    },
  };
}

const TILES = [
  ['hits', 'Cache hit rate', 'hit rate'],
  ['saved', 'Prefill time saved', 'seconds of prefill saved per second'],
  ['ttft', 'Time to first token', 'p99 and p50 of the time to the first token'],
  ['tokens', 'Tokens per second', 'generated tokens per second'],
  ['queue', 'Waiting', 'requests that wait at the router'],
  ['errors', 'Errors', 'share of generations that failed'],
  ['routing', 'Cached: here / round robin', ''],
  ['prediction', 'Predicted right', ''],
];

export class Overview {
  constructor(parent, note) {
    this.note = note;
    this.tiles = new Map();
    for (const [name, title, drawn] of TILES) {
      const tile = {
        value: element('p', { class: 'value' }),
        below: [element('p', { class: 'muted' }), element('p', { class: 'muted' })],
        spark: drawn === '' ? null : sparkline(),
        drawn,
      };
      this.tiles.set(name, tile);
      parent.append(element('div', { class: 'tile card', id: `tile-${name}` }, element('h3', {}, title), tile.value,
        ...tile.below, tile.spark));
    }
  }

  show(history, { model, queues, inFlight }) {
    const readings = history.readings.map(({ time, families, queued, workers }) =>
      ({ time, queued: queueOf(queued, model).waiting, saved: countedBy(workers, model, 'saved_prefill_seconds_total'),
        computed: countedBy(workers, model, 'computed_prefill_seconds_total'), ...reading(families, model) }));
    const now = readings.at(-1);
    const before = readings.find((each) => each.time >= now.time - WINDOW_SECONDS && each !== now) ?? readings.at(-2);
    const recent = difference(now, before ?? { ...now, time: now.time - 1 });
    setText(this.note, before === undefined ? 'the first reading' : `the last ${age(recent.spent)}`);
    const values = contents({ now, recent, points: pointsOf(readings), queues, model, inFlight });
    for (const [name, tile] of this.tiles) {
      const { value, below, lines, most, isBad } = values[name];
      setText(tile.value, value);
      tile.value.classList.toggle('bad', isBad === true);
      below.forEach((text, i) => setText(tile.below[i], text));
      if (tile.spark !== null) setSparkline(tile.spark, lines, `${tile.drawn}, over ${age(now.time - readings[0].time)}`, most);
    }
  }
}

// One point per reading, over the seconds before it. The line begins at the left, also while the history is short.
function pointsOf(readings) {
  const first = readings[0].time;
  const span = Math.max(WINDOW_SECONDS, readings.at(-1).time - first);
  return readings.slice(1).map((each, i) => {
    const before = readings.slice(0, i + 1).findLast((other) => other.time <= each.time - SMOOTHED_SECONDS) ?? readings[0];
    return { ...difference(each, before), queued: each.queued, place: (each.time - first) / span };
  });
}
