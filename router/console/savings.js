// The calculator: what a prefix cache saves, by the formulas of deploy/prompts.md. It needs no router.

import { bar, element, setBar, setText } from './draw.js';
import { count, exactPercent, percent, rate, seconds } from './format.js';

// 1, 2, 5 of each power of ten; or the powers of two.
function decades(from, to) {
  const steps = [];
  for (let power = from; power <= to; power *= 10) steps.push(power, 2 * power, 5 * power);
  return steps.filter((step) => step <= to);
}
function doublings(from, to) {
  const steps = [];
  for (let step = from; step <= to; step *= 2) steps.push(step);
  return steps;
}

// name, label, unit, at first, least, most, where the slider stops
const INPUTS = [
  ['shared', 'Shared tokens at the front', 'system prompt, tools, documents', 4096, 0, 10_000_000, [0, ...doublings(16, 1_048_576)]],
  ['own', 'Own tokens of each request', 'the question', 128, 1, 10_000_000, doublings(1, 131_072)],
  ['requests', 'Requests', 'that begin with the shared tokens', 1000, 1, 1_000_000_000, decades(1, 1_000_000)],
  ['workers', 'Workers', 'that each compute the shared tokens once', 1, 1, 100_000, doublings(1, 256)],
  ['speed', 'Prefill tokens per second', 'of one worker', 10_000, 1, 100_000_000, decades(100, 1_000_000)],
];

// What N requests of S shared and U own tokens cost on W workers of r prompt tokens per second.
export function savings({ shared, own, requests, workers, speed }) {
  const computing = Math.min(workers, requests);
  const without = requests * (shared + own);
  const withSharing = computing * shared + requests * own;
  return {
    computing,
    shareOfOne: shared / (shared + own),
    without,
    withSharing,
    saved: (without - withSharing) / without,
    firstTokenWithout: (shared + own) / speed,
    firstTokenWith: own / speed,
    perSecondWithout: (workers * speed) / (shared + own),
    perSecondWith: (workers * speed * requests) / withSharing,
  };
}

export class Savings {
  // Values that the user has not set follow what the router tells.
  constructor(parent) {
    this.values = Object.fromEntries(INPUTS.map(([name, , , first]) => [name, first]));
    this.touched = new Set();
    this.fields = new Map();
    const form = element('div', { class: 'inputs' }, ...INPUTS.map((input) => this.input(...input)));
    this.traffic = element('button', { type: 'button', disabled: '' }, 'Take this router’s traffic');
    this.trafficNote = element('span', { class: 'muted' }, 'once requests have come');
    this.traffic.addEventListener('click', () => this.takeTraffic());
    form.append(element('p', { class: 'take' }, this.traffic, ' ', this.trafficNote));
    this.results = element('div', { class: 'results', role: 'group', 'aria-label': 'Result' });
    this.drawResults();
    parent.append(element('div', { class: 'savings' }, form, this.results));
    for (const [name, value] of Object.entries(this.values)) this.assign(name, value);
    this.compute();
  }

  input(name, label, unit, first, least, most, stops) {
    const id = `savings-${name}`;
    const number = element('input', { type: 'number', id, min: least, max: most, step: 1, value: first, inputmode: 'numeric' });
    const slider = element('input', { type: 'range', min: 0, max: stops.length - 1, step: 1, 'aria-label': `${label}, in steps` });
    const note = element('span', { class: 'muted' }, unit);
    number.addEventListener('input', () => {
      const value = Math.round(number.valueAsNumber);
      const isValid = value >= least && value <= most;
      number.setAttribute('aria-invalid', String(!isValid));
      if (isValid) this.set(name, value, number);
    });
    slider.addEventListener('input', () => this.set(name, stops[slider.valueAsNumber], slider));
    this.fields.set(name, { number, slider, stops, note });
    return element('div', { class: 'input' }, element('label', { for: id }, label), number, slider, note);
  }

  set(name, value, by) {
    this.touched.add(name);
    this.assign(name, value, by);
    this.compute();
  }

  assign(name, value, by) {
    const { number, slider, stops } = this.fields.get(name);
    this.values[name] = value;
    if (by !== number) {
      number.value = value;
      number.setAttribute('aria-invalid', 'false');
    }
    const nearest = stops.reduce((best, stop, i) => (Math.abs(stop - value) < Math.abs(stops[best] - value) ? i : best), 0);
    if (by !== slider) slider.value = nearest;
    slider.setAttribute('aria-valuetext', count(value));
  }

  // From the router: its ready workers, the speed that its decisions go by, and the mean request.
  follow({ workers, tokenSeconds, mean }) {
    const told = { workers: workers > 0 ? workers : undefined, speed: tokenSeconds === null ? undefined : Math.round(1 / tokenSeconds) };
    for (const [name, value] of Object.entries(told)) {
      if (value === undefined || this.touched.has(name) || this.values[name] === value) continue;
      this.assign(name, Math.max(1, value));
    }
    setText(this.fields.get('speed').note, told.speed === undefined ? 'of one worker' : `of one worker; here about ${count(told.speed)}`);
    this.mean = mean;
    this.traffic.disabled = mean === null;
    setText(this.trafficNote, mean === null ? 'once requests have come'
      : `the mean request so far: ${count(mean.cached)} tokens cached, ${count(mean.computed)} computed`);
    this.compute();
  }

  takeTraffic() {
    this.set('shared', Math.round(this.mean.cached));
    this.set('own', Math.max(1, Math.round(this.mean.computed)));
    this.set('requests', Math.max(1, Math.round(this.mean.requests)));
  }

  drawResults() {
    const line = (name, kind) => ({ name, bar: bar(kind), text: element('span') });
    this.headline = element('p', { class: 'headline' });
    this.lines = [line('Without sharing', 'use'), line('With sharing', 'good')];
    this.facts = element('dl', {});
    this.formula = element('p', { class: 'formula' });
    this.results.append(this.headline,
      ...this.lines.map(({ name, bar: drawn, text }) => element('div', { class: 'compare' }, element('span', {}, name), drawn, text)),
      this.facts, this.formula);
  }

  compute() {
    const { shared, own, requests, workers, speed } = this.values;
    const told = savings(this.values);
    setText(this.headline, `${exactPercent(told.saved)} of the prompt tokens need not be computed.`);
    const [without, withSharing] = this.lines;
    setBar(without.bar, 1);
    setText(without.text, `${count(told.without)} tokens, ${seconds(told.without / speed)} of prefill`);
    setBar(withSharing.bar, told.withSharing / told.without);
    setText(withSharing.text, `${count(told.withSharing)} tokens, ${seconds(told.withSharing / speed)} of prefill`);
    const facts = [
      ['One request that finds the front', `${percent(told.shareOfOne)} saved; computing before the first token ${seconds(told.firstTokenWithout)} → ${seconds(told.firstTokenWith)}`],
      ['Prompts per second, at most', `${rate(told.perSecondWithout)} → ${rate(told.perSecondWith)}, all workers, busy with prompts alone`],
    ];
    this.facts.replaceChildren(...facts.flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
    setText(this.formula, `saved = (N − W) · S / (N · (S + U)) = (${count(requests)} − ${count(told.computing)}) · ${count(shared)} / (${count(requests)} · ${count(shared + own)})`
      + (told.computing < workers ? '; no more workers than requests compute the front' : ''));
  }
}
