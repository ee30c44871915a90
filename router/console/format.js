// Numbers as people read them. Absent values are a dash; spaces before units do not break.

const NO_VALUE = '–';
const SPACE = '\u00a0';
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

// Three digits: 4.22, 42.2, 422.
function threeDigits(value) {
  const digits = Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  return value.toFixed(digits);
}

// 1,488 · 13.9k · 4.22M
export function count(value) {
  if (!isNumber(value)) return NO_VALUE;
  if (Math.abs(value) < 9999.5) return whole.format(value);
  for (const [size, unit] of [[1e3, 'k'], [1e6, 'M'], [1e9, 'G']]) {
    if (Math.abs(value) < size * 999.5 || unit === 'G') return threeDigits(value / size) + unit;
  }
}

// 0.42 · 8.1 · 120 · 13.9k, for what is counted per second.
export function rate(value) {
  if (!isNumber(value)) return NO_VALUE;
  if (value === 0) return '0';
  if (value < 0.995) return value < 0.005 ? '<0.01' : value.toFixed(2);
  return value < 99.95 ? one.format(value) : count(value);
}

// 97 % · 99.6 % · 0.4 %: near the ends one more digit, so that 100 % means all and 0 % none.
export function percent(share) {
  if (!isNumber(share)) return NO_VALUE;
  const value = share * 100;
  const isNearEnd = (value > 0 && value < 0.95) || (value > 99 && value < 100);
  if (!isNearEnd) return value.toFixed(0) + SPACE + '%';
  return (value < 1 ? Math.max(0.1, value) : Math.min(99.9, value)).toFixed(1) + SPACE + '%';
}

// 96.6 %
export function exactPercent(share) {
  return isNumber(share) ? (share * 100).toFixed(1) + SPACE + '%' : NO_VALUE;
}

// 0.42 ms · 59 ms · 1.34 s · 3 min 12 s · 2 h 5 min
export function seconds(value) {
  if (!isNumber(value)) return NO_VALUE;
  if (value < 0) return '-' + seconds(-value);
  if (value === 0) return '0' + SPACE + 'ms';
  if (value < 0.00995) return (value * 1e3).toFixed(value < 0.000995 ? 2 : 1) + SPACE + 'ms';
  if (value < 0.9995) return (value * 1e3).toFixed(0) + SPACE + 'ms';
  if (value < 59.95) return threeDigits(value) + SPACE + 's';
  return longTime(Math.round(value));
}

function longTime(total) {
  for (const [size, unit, smaller, smallerUnit] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'min'], [60, 'min', 1, 's']]) {
    if (total < size) continue;
    const rest = Math.floor((total % size) / smaller);
    return Math.floor(total / size) + SPACE + unit + (rest > 0 ? SPACE + rest + SPACE + smallerUnit : '');
  }
  return total + SPACE + 's';
}

// 25.4 MB · 1.84 GB
export function bytes(value) {
  if (!isNumber(value)) return NO_VALUE;
  return value < 999.5e6 ? threeDigits(value / 1e6) + SPACE + 'MB' : threeDigits(value / 1e9) + SPACE + 'GB';
}

// 25.4 MB/s · 1.84 GB/s
export function bytesPerSecond(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NO_VALUE;
}

// 5 s · 3 min 12 s, for ages.
export function age(value) {
  return isNumber(value) ? longTime(Math.max(0, Math.round(value))) : NO_VALUE;
}

// 03:12:45 UTC, as the verdict and the logs have it, wherever the browser is.
export function clockTime(date) {
  return `${date.toISOString().slice(11, 19)}${SPACE}UTC`;
}

// 03:12, the same to the minute, for the ends of a scale.
export function minuteOf(unixSeconds) {
  return new Date(unixSeconds * 1000).toISOString().slice(11, 16);
}

export function plural(number, word) {
  return count(number) + SPACE + word + (number === 1 ? '' : 's');
}
