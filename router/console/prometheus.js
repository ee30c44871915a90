// The router's /metrics: its text format, the sums that the page needs, and quantiles of histograms.

const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED = { n: '\n', '"': '"', '\\': '\\' };

// Name -> its samples, {labels, value}.
export function parse(text) {
  const families = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line[0] === '#') continue;
    const brace = line.indexOf('{');
    const close = line.lastIndexOf('}');
    const nameEnd = brace === -1 ? line.indexOf(' ') : brace;
    const name = line.slice(0, nameEnd);
    const value = valueOf(line.slice(brace === -1 ? nameEnd + 1 : close + 1).trim().split(' ')[0]);
    if (Number.isNaN(value)) continue;
    const labels = {};
    if (brace !== -1) {
      for (const [, label, raw] of line.slice(brace + 1, close).matchAll(LABEL)) {
        labels[label] = raw.replace(/\\(.)/g, (all, escaped) => ESCAPED[escaped] ?? all);
      }
    }
    if (!families.has(name)) families.set(name, []);
    families.get(name).push({ labels, value });
  }
  return families;
}

function valueOf(text) {
  if (text === '+Inf') return Infinity;
  return text === '-Inf' ? -Infinity : Number.parseFloat(text);
}

// The sum over the samples with these labels. Undefined labels match all.
export function sum(families, name, wanted = {}) {
  let total = 0;
  for (const { labels, value } of families.get(name) ?? []) {
    if (Object.entries(wanted).every(([key, want]) => want === undefined || labels[key] === want)) total += value;
  }
  return total;
}

// Upper bound -> how many observations were at most that, over the samples with these labels.
export function buckets(families, name, wanted = {}) {
  const counts = new Map();
  for (const { labels, value } of families.get(name + '_bucket') ?? []) {
    if (!Object.entries(wanted).every(([key, want]) => want === undefined || labels[key] === want)) continue;
    const bound = valueOf(labels.le);
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  return counts;
}

// Where the q-th part of the observations between two readings ends, as Prometheus computes it: linear within a bucket.
// {value} or, beyond the last bound, {above}; null without observations.
export function quantile(q, now, before) {
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const countOf = (bound) => now.get(bound) - (before?.get(bound) ?? 0);
  if (bounds.length === 0) return null;
  const wanted = q * countOf(bounds.at(-1));
  if (!(wanted > 0)) return null;
  let low = 0;
  let below = 0;
  for (const bound of bounds) {
    const upTo = countOf(bound);
    if (upTo >= wanted) {
      if (bound === Infinity) return { above: low };
      return { value: low + ((bound - low) * (wanted - below)) / (upTo - below) };
    }
    low = bound;
    below = upTo;
  }
  return null;
}
