// Why the last requests went where they went: the words, what was predicted and what came, and all candidates.

import { cell, element, nothing, reconcile, rows, setText } from './draw.js';
import { age, count, percent, plural, seconds } from './format.js';

const COLUMNS = ['When', 'Worker', 'Because', 'Prompt', 'Cached', 'First token', 'Regret', 'Round robin'];
export const MOST_DECISIONS = 12;
const LEAST_REGRET_SECONDS = 0.0005;
const REASONS = {
  deepest_match: ['longest match', 'it holds the most of the prompt, and no other worker was cheaper by more than a tie'],
  least_load: ['least load', 'nothing useful was cached, or the match was not worth the wait'],
  near_tie: ['near tie', 'its cost was within a tie of the cheapest; of those it holds the most, then the shortest queue'],
  only_worker: ['only worker', 'no other worker could take the request'],
  pull: ['cheapest with a pull', 'it costs least, because it fetches blocks from another worker'],
  restore: ['cheapest with a restore', 'it costs least, because it takes blocks from its disk'],
  apart: ['the prompt alone', 'it computes the prompt and the answer goes on elsewhere, which costs less together'],
  replicate: ['cheapest, and copied', 'it was the cheapest; and another worker gets a copy of the prefix, because that saves more waiting than it costs'],
};
// Why the number of tokens that it found, and when its first token came, will never be known.
const NO_ACTUAL = {
  worker_lost: 'The worker went away, and the request continued elsewhere.',
  overloaded: 'The worker had no room, and the request continued elsewhere.',
  unavailable: 'The worker did not take it, and the request continued elsewhere.',
  request_ended: 'The request ended before its first token.',
  not_reported: 'The engine does not report what it found.',
};
// Heading, member, what it is. Times unless a format is given.
const TERMS = [
  ['matched', 'matched_tokens', 'prompt tokens that it holds', count],
  ['pending', 'pending_tokens', 'of them, tokens that it is still computing', count],
  ['on disk', 'disk_tokens', 'prompt tokens behind those, that its disk has', count],
  ['queue', 'queue_seconds', 'uncached tokens before it'],
  ['transfer', 'transfer_seconds', 'until the blocks are there that it fetches from another worker or takes from its disk'],
  ['prefill', 'prefill_seconds', 'its own uncached tokens'],
  ['decode', 'decode_seconds', 'running answers in the same steps'],
  ['first token', 'ttft_seconds', 'the longer of queue and transfer, + prefill + decode'],
  ['weight', 'congestion', 'of computing, in a busy fleet', (value) => value.toFixed(2)],
  ['pace', 'pace', 'evens out small differences of speed', (value) => value.toFixed(2)],
  ['delay', 'delay_seconds', 'for the prompts that it delays'],
  ['answer', 'answer_seconds', 'from its first token to its last'],
  ['stall', 'stall_seconds', 'for the answers that run there, while its prompt is computed'],
  ['displaced', 'displaced_seconds', 'for what makes room for the blocks that come'],
  ['cost', 'cost_seconds', 'what the policy minimises'],
];

export class Decisions {
  constructor(parent, note) {
    this.note = note;
    this.parent = parent;
    this.table = rows(COLUMNS, 'decision');
    this.held = element('p', { class: 'muted', role: 'status' });
    this.none = nothing('No request has been routed yet. Send one to the router’s API:',
      `curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\\n  -d '{"model": "demo-model", "prompt": "Who comes here?", "max_tokens": 16}'`);
    this.shown = [];
  }

  // While a decision is open, or the keyboard is on one, the list keeps its rows: nothing moves under the reader.
  show(decisions) {
    if (decisions.length === 0) {
      setText(this.note, '');
      this.shown = [];
      this.parent.replaceChildren(this.none);
      return;
    }
    if (this.table.whole.parentElement !== this.parent) this.parent.replaceChildren(this.held, this.table.whole);
    const isHeld = this.table.list.querySelector('details[open], :focus-visible') !== null;
    const fresh = new Map(decisions.map((decision) => [keyOf(decision), decision]));
    const kept = this.shown.map((decision) => fresh.get(keyOf(decision)) ?? decision);
    const newer = decisions.filter((decision) => !this.shown.some((old) => keyOf(old) === keyOf(decision))).length;
    this.shown = isHeld ? kept : decisions;
    setText(this.held, isHeld && newer > 0
      ? `Held while a decision is open or selected; ${newer >= MOST_DECISIONS ? 'all shown have been followed by' : 'there are'} ${plural(newer, 'newer one')}.` : '');
    setText(this.note, `the newest ${this.shown.length}; open one for its candidates`);
    reconcile(this.table.list, this.shown, keyOf, create, update);
  }
}

// A retry is a decision of its own, with the same id.
function keyOf(decision) {
  return `${decision.id}/${decision.retries}`;
}

// In short and in full. Other policies have reasons of their own.
function reasonOf({ reason }) {
  return REASONS[reason] ?? [reason.replaceAll('_', ' '), `of its rule “${reason.replaceAll('_', ' ')}”`];
}

function create() {
  const row = element('li');
  const part = (kind = '') => element('span', { class: kind });
  row.parts = {
    when: part('muted'), worker: element('strong', { class: 'name' }), reason: part(), prompt: part(), cached: part(),
    gap: part('muted'), first: part(), late: part('muted'), regret: part(), rotation: part(), rotationFirst: part('muted'),
  };
  row.body = element('div', { class: 'explained' });
  const of = row.parts;
  row.append(element('details', {}, element('summary', { class: 'row decision' }, cell('When', of.when), cell('Worker', of.worker),
    cell('Because', of.reason), cell('Prompt', of.prompt), cell('Cached', of.cached, ' ', of.gap),
    cell('First token', of.first, ' ', of.late), cell('Beside the best', of.regret), cell('Round robin', of.rotation, ' ', of.rotationFirst)), row.body));
  row.told = '';
  return row;
}

function update(row, decision) {
  setText(row.parts.when, decision.seconds_ago < 0.5 ? 'now' : `${age(decision.seconds_ago)} ago`);
  // All else changes only when the first token comes.
  const told = JSON.stringify({ ...decision, seconds_ago: 0 });
  if (told === row.told) return;
  row.told = told;
  const { parts } = row;
  const { predicted, actual } = decision;
  setText(parts.worker, decision.worker + (decision.retries > 0 ? ` (retry ${decision.retries})` : ''));
  setText(parts.reason, reasonOf(decision)[0]);
  setText(parts.prompt, count(decision.prompt_tokens));
  const { cached_tokens: cached } = actual ?? predicted;
  // What is predicted counts whole blocks; a difference within one says nothing.
  const isSurprise = Math.abs(cached - predicted.cached_tokens) >= decision.block_tokens;
  setText(parts.cached, `${count(cached)} (${percent(cached / Math.max(1, decision.prompt_tokens))})`);
  setText(parts.gap, isSurprise ? `predicted ${count(predicted.cached_tokens)}` : '');
  parts.gap.className = isSurprise ? 'warn' : 'muted';
  setText(parts.first, actual === null ? (decision.no_actual ? 'none' : 'not yet') : seconds(actual.ttft_seconds));
  setText(parts.late, `predicted ${seconds(predicted.ttft_seconds)}`);
  setText(parts.regret, regretText(decision));
  setText(parts.rotation, `${count(decision.round_robin.cached_tokens)} cached,`);
  setText(parts.rotationFirst, seconds(decision.round_robin.ttft_seconds));
  row.body.replaceChildren(...explain(decision));
}

// What the best candidate would have been better by.
function regretText({ regret }) {
  const time = regret.ttft_seconds ?? 0;
  const parts = [regret.cached_tokens > 0 ? `${count(regret.cached_tokens)} tokens` : '', time >= LEAST_REGRET_SECONDS ? seconds(time) : ''];
  return parts.filter((part) => part !== '').join(', ') || 'none';
}

// What times say of the whole answer; older routers and answers that go on say nothing.
function answerText({ itl_seconds: between, whole_seconds: whole }) {
  const parts = [];
  if (between != null) parts.push(`${seconds(between)} between tokens`);
  if (whole != null) parts.push(`whole answer after ${seconds(whole)}`);
  return parts.map((part) => `, ${part}`).join('');
}

function explain(decision) {
  const { predicted, actual, regret, round_robin: rotation } = decision;
  const came = actual === null ? NO_ACTUAL[decision.no_actual] ?? 'No token has come yet.'
    : `It found ${count(actual.cached_tokens)}, and the first token came after ${seconds(actual.ttft_seconds)}${answerText(actual)}.`;
  const regretted = [
    regret.cached_tokens > 0 ? `one held ${count(regret.cached_tokens)} tokens more` : '',
    (regret.ttft_seconds ?? 0) >= LEAST_REGRET_SECONDS ? `one was predicted to be ${seconds(regret.ttft_seconds)} faster` : '',
  ].filter((text) => text !== '');
  const best = regretted.length > 0 ? `Beside the best: of the other candidates ${regretted.join(', and ')}.`
    : 'Beside the best: no other candidate held more or was predicted to be faster.';
  const lines = [
    `${decision.worker} was chosen by ${decision.policy} because ${reasonOf(decision)[1]}.`,
    `Predicted: ${count(predicted.cached_tokens)} of ${count(decision.prompt_tokens)} prompt tokens cached, first token after ${seconds(predicted.ttft_seconds)}${answerText(predicted)}. ${came}`,
    best,
    `Round robin would have sent it to a worker with ${count(rotation.cached_tokens)} cached tokens: first token after ${seconds(rotation.ttft_seconds)}${answerText(rotation)}.`,
  ];
  if (decision.apart !== null) lines.push(`The answer goes on at ${decision.apart.worker}, to which ${plural(decision.apart.blocks, 'block')} go: that costs ${seconds(decision.apart.cost_seconds)}, and ${seconds(decision.apart.together_seconds)} at one worker.`);
  if (decision.together !== null) lines.push(`Its prompt was not computed apart: ${decision.together.replaceAll('_', ' ')}.`);
  if (decision.copy !== null) lines.push(`${decision.copy.worker ?? 'another worker'} gets a copy of the first ${plural(decision.copy.blocks, 'block')}; no request waits for it.`);
  if (!decision.rates_known) lines.push('No worker’s speed is known yet: the columns below give an order, not times.');
  return [
    ...lines.map((line) => element('p', {}, line)),
    candidates(decision),
    element('p', { class: 'muted ids' }, 'Answer ', element('code', {}, decision.id), ', request ', element('code', {}, decision.request_id),
      `, model ${decision.model}. Also: `, element('code', {}, `roostctl explain ${decision.id}`)),
  ];
}

function candidates(decision) {
  const head = element('tr', {}, element('th', { scope: 'col' }, 'candidate'),
    ...TERMS.map(([name, , meaning]) => element('th', { scope: 'col', title: meaning, class: 'number' }, name)));
  const inTimes = decision.rates_known;
  const plain = (value) => value.toPrecision(3);
  const body = decision.candidates.map((candidate) => {
    const isChosen = candidate.worker === decision.worker;
    const name = element('th', { scope: 'row' }, candidate.worker, isChosen ? element('span', { class: 'good' }, ' ← chosen') : '');
    return element('tr', isChosen ? { class: 'chosen' } : {}, name, ...TERMS.map(([, member, , format]) =>
      element('td', { class: 'number' }, (format ?? (inTimes ? seconds : plain))(candidate[member]))));
  });
  const table = element('table', {}, element('caption', { class: 'hidden' }, 'Candidates and the terms of their cost'),
    element('thead', {}, head), element('tbody', {}, ...body));
  return element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Candidates' }, table);
}
