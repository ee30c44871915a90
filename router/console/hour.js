// The last hour, as the router keeps it, in steps of some seconds: also for who opens the page only now.

import { element, setSparkline, setText, sparkline } from './draw.js';
import { age, count, minuteOf, percent, rate, seconds } from './format.js';

const HOUR_SECONDS = 3600;

// name, title, the value of a point (null: a gap), how it is written, and which end of the hour is told: the worst.
const LINES = [
  ['ready', 'Ready workers', (point) => point.ready_workers, (value) => count(value), Math.min],
  ['hits', 'Cache hit rate', (point) => (point.prompt_tokens > 0 ? point.cached_tokens / point.prompt_tokens : null), percent, Math.min],
  ['ttft', 'First token, p99', (point) => point.ttft_p99_seconds ?? null, seconds, Math.max],
  ['output', 'Tokens per second', (point, step) => point.output_tokens / step, rate, Math.max],
  ['waiting', 'Waiting', (point) => point.waiting_requests, (value) => count(value), Math.max],
  ['failed', 'Failed', (point) => (point.ended > 0 ? point.failed / point.ended : null), percent, Math.max],
];

// The points of several models in one: workers and tokens add up, times are the slowest.
function together(models) {
  const byTime = new Map();
  for (const { points } of models) {
    for (const point of points) {
      const sum = byTime.get(point.unix_seconds);
      if (sum === undefined) {
        byTime.set(point.unix_seconds, { ...point });
        continue;
      }
      for (const name of ['ready_workers', 'workers', 'waiting_requests', 'ended', 'failed', 'prompt_tokens', 'cached_tokens', 'output_tokens']) {
        sum[name] += point[name];
      }
      if (point.ttft_p99_seconds !== undefined) sum.ttft_p99_seconds = Math.max(sum.ttft_p99_seconds ?? 0, point.ttft_p99_seconds);
    }
  }
  return [...byTime.values()].sort((a, b) => a.unix_seconds - b.unix_seconds);
}

export class Hour {
  constructor(parent, note) {
    this.note = note;
    this.tiles = LINES.map(([name, title]) => {
      const tile = { text: element('p', { class: 'muted small' }), spark: sparkline(), scale: element('p', { class: 'muted small scale' }) };
      tile.begin = tile.scale.appendChild(element('span'));
      tile.top = tile.scale.appendChild(element('span'));
      tile.end = tile.scale.appendChild(element('span'));
      parent.append(element('div', { class: 'tile card', id: `hour-${name}` }, element('h3', {}, title), tile.text, tile.spark, tile.scale));
      return tile;
    });
  }

  // `told` is the answer of /admin/v1/history.
  show(told, model) {
    const points = together(told.models.filter((each) => model === undefined || each.id === model));
    const last = points.at(-1)?.unix_seconds ?? 0;
    const first = Math.max(points[0]?.unix_seconds ?? 0, last - HOUR_SECONDS);
    const span = Math.max(told.step_seconds, last - first);
    setText(this.note, points.length === 0 ? 'nothing yet' : `kept by the router: ${age(last - first + told.step_seconds)}`);
    LINES.forEach(([, title, of, write, worst], i) => {
      const line = points.map((point) => [(point.unix_seconds - first) / span, of(point, told.step_seconds)]);
      const values = line.map(([, value]) => value).filter((value) => value !== null);
      const word = worst === Math.min ? 'least' : 'most';
      setText(this.tiles[i].text, values.length === 0 ? 'no value' : `now ${write(values.at(-1))}, ${word} ${write(worst(...values))}`);
      setSparkline(this.tiles[i].spark, [line], `${title}, over ${age(span)}`);
      setText(this.tiles[i].begin, values.length === 0 ? '' : minuteOf(first));
      setText(this.tiles[i].top, values.length === 0 ? '' : `0 to ${write(Math.max(...values))}`);
      setText(this.tiles[i].end, values.length === 0 ? '' : minuteOf(last));
    });
  }
}
