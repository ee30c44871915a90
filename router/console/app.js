// The page: asks the router every two seconds and gives each panel its part of the answers. What the router does not
// tell any more is not shown: without an answer the panels go.

import { setText } from './draw.js';
import { age, clockTime } from './format.js';
import { sum } from './prometheus.js';
import { Refusal, Unreachable, getJson, getText, key } from './router.js';
import { Decisions, MOST_DECISIONS } from './decisions.js';
import { Hour } from './hour.js';
import { Keys } from './keys.js';
import { History, Overview, secondsPerToken } from './overview.js';
import { MOST_PREFIXES, Prefixes } from './prefixes.js';
import { Savings } from './savings.js';
import { Events, Lost, VerdictLine } from './standing.js';
import { Transfers } from './transfers.js';
import { Shares, Workers } from './workers.js';

const INTERVAL_MS = 2000;
// What costs more, or changes less: workers look through their blocks for the prefixes.
const SLOW_INTERVAL_MS = 10_000;
// Numbers older than that, as after a pause, go before the router is asked again.
const STALE_SECONDS = 10;
const MOST_MODELS_ASKED = 8;
const ASKED_DECISIONS = 60;  // of all models; also what the speed is the mean of

const by = (id) => document.getElementById(id);
const history = new History();
const shares = new Shares();
const verdict = new VerdictLine(by('verdict'));
const lostPanel = new Lost(by('lost-workers'), by('lost-list'), by('lost-workers-note'));
const eventsPanel = new Events(by('events'));
const hourPanel = new Hour(by('hour'), by('hour-note'));
const overview = new Overview(by('tiles'), by('now-note'));
const workersPanel = new Workers(by('workers'), by('workers-note'));
const decisionsPanel = new Decisions(by('decisions'), by('decisions-note'));
const prefixesPanel = new Prefixes(by('prefixes'), by('prefixes-note'));
const transfersPanel = new Transfers(by('transfers-section'), by('transfers'), by('transfers-note'));
const keysPanel = new Keys(by('keys'), by('keys-note'));
const savingsPanel = new Savings(by('savings'));

let isPaused = false;
let lostSince = null;
let slowAt = -Infinity;
let timer = 0;
let answers = null;  // the last ones, for a change of the model
let answeredAt = 0;

function seconds() {
  return performance.now() / 1000;
}

function chosenModel() {
  return by('model').value === '' ? undefined : by('model').value;
}

// One of: live, lost, refused, ask-key. All else is hidden.
function showOnly(part) {
  for (const id of ['live', 'lost', 'refused', 'ask-key']) by(id).hidden = id !== part;
}

function showState(text, kind) {
  by('state').className = `state ${kind}`;
  setText(by('state'), text);
}

function forgetNumbers() {
  history.forget();
  shares.forget();
  answers = null;
  slowAt = -Infinity;
}

function showModels(models) {
  const names = models.map((model) => model.id).sort();
  const select = by('model');
  const chosen = chosenModel();
  if (chosen !== undefined && !names.includes(chosen)) names.push(chosen);
  const wanted = ['', ...names];
  if ([...select.options].map((option) => option.value).join('\n') !== wanted.join('\n')) {
    select.replaceChildren(...wanted.map((name) => new Option(name === '' ? 'all' : name, name, false, name === (chosen ?? ''))));
  }
  by('model-choice').hidden = names.length < 2;
  return names;
}

function showAll() {
  const { workers, queues, decisions, told } = answers;
  showModels(told.models);
  const model = chosenModel();
  const isShown = (each) => model === undefined || each.model === model;
  const shownWorkers = workers.filter(isShown);
  const shownDecisions = decisions.filter(isShown);
  const tokenSeconds = secondsPerToken(shownDecisions);
  const inFlight = shownWorkers.reduce((total, worker) => total + worker.in_flight_requests, 0);
  verdict.show(told, model);
  lostPanel.show(told.lost.filter(isShown));
  eventsPanel.show(told.events.filter(isShown));
  if (answers.hour !== undefined) hourPanel.show(answers.hour, model);
  overview.show(history, { model, queues, inFlight });
  showTransfers();
  workersPanel.show(shownWorkers, shares, told.lost.filter((each) => isShown(each) && !each.back).length);
  decisionsPanel.show(shownDecisions.slice(0, MOST_DECISIONS));
  const readyCount = shownWorkers.filter((worker) => worker.state === 'ready').length;
  savingsPanel.follow({ workers: readyCount, tokenSeconds, mean: meanRequest(model) });
}

// Null while no request has had its first token.
function meanRequest(model) {
  const of = (name) => sum(history.readings.at(-1).families, `roost_router_${name}`, { model });
  const requests = of('ttft_seconds_count');
  if (requests === 0) return null;
  const cached = of('cached_tokens_total');
  return { requests, cached: cached / requests, computed: (of('prompt_tokens_total') - cached) / requests };
}

async function askForNumbers() {
  const [workers, queues, decisions, metrics] = await Promise.all([
    getJson('admin/v1/workers'), getJson('admin/v1/queues'), getJson(`admin/v1/decisions?limit=${ASKED_DECISIONS}`),
    getText('metrics'),
  ]);
  answers = { told: workers, workers: workers.workers, queues: queues.queues, decisions: decisions.decisions, hour: answers?.hour,
    transfers: answers?.transfers };
  const time = seconds();
  history.add(metrics, time, answers.queues, answers.workers);
  shares.add(answers.workers, time);
  setText(by('version'), history.readings.at(-1).families.get('roost_build_info')?.[0].labels.version ?? '');
}

async function askForPrefixes() {
  const models = chosenModel() === undefined ? [...new Set(answers.workers.filter((worker) => worker.ready).map((worker) => worker.model))]
    : [chosenModel()];
  if (models.length === 0) return prefixesPanel.showNothing('Prefixes are the workers’ to count; none is ready.');
  try {
    prefixesPanel.show(await Promise.all(models.sort().slice(0, MOST_MODELS_ASKED).map((model) =>
      getJson(`admin/v1/prefixes?model=${encodeURIComponent(model)}&top=${MOST_PREFIXES}`))));
  } catch (error) {
    // The workers may have left in the meantime.
    if (!(error instanceof Refusal) || error.status === 401) throw error;
    prefixesPanel.showNothing(`The router answers: ${error.message}.`);
  }
}

async function askSlowly(asker) {
  if (seconds() - slowAt < SLOW_INTERVAL_MS / 1000) return;
  slowAt = seconds();
  answers.hour = await getJson('admin/v1/history');
  hourPanel.show(answers.hour, chosenModel());
  await askForPrefixes();
  const transfers = await getJson('admin/v1/transfers');
  if (key.get() !== asker) return;
  answers.transfers = transfers;
  showTransfers();
  const { keys } = await getJson('admin/v1/usage');
  if (key.get() === asker) keysPanel.show(keys);
}

function showTransfers() {
  const model = chosenModel();
  const { pairs = [], pulls } = answers.transfers ?? {};
  transfersPanel.show(pairs.filter((pair) => model === undefined || pair.model === model), pulls);
}

function showLost() {
  if (lostSince === null) {
    lostSince = new Date();
    forgetNumbers();
  }
  setText(by('lost-since'), clockTime(lostSince));
  setText(by('lost-for'), `For ${age((Date.now() - lostSince) / 1000)} now.`);
  showOnly('lost');
  showState(`Not reachable since ${clockTime(lostSince)}`, 'bad');
}

function showRefusal(error) {
  forgetNumbers();
  if (error.status === 401) {
    const hadKey = key.get() !== '';
    key.forget();
    by('forget').hidden = true;
    if (by('ask-key').hidden) setText(by('key-error'), '');
    if (hadKey) setText(by('key-error'), 'The router does not take this key.');
    showOnly('ask-key');
    showState('Waits for a key', 'warn');
    if (document.activeElement === document.body) by('key').focus();
    return;
  }
  setText(by('refused-why'), `It answers with ${error.status}: ${error.message}.`);
  showOnly('refused');
  showState('Refused', 'bad');
}

async function update() {
  const asker = key.get();
  try {
    await askForNumbers();
    if (key.get() !== asker) return;  // forgotten meanwhile, and with it what it could see
    lostSince = null;
    answeredAt = seconds();
    showAll();
    showOnly('live');
    by('forget').hidden = asker === '';
    if (!isPaused) showState(`Live: ${location.host}`, 'good');
    await askSlowly(asker);
  } catch (error) {
    if (error instanceof Unreachable) return showLost();
    if (error instanceof Refusal) return showRefusal(error);
    throw error;
  }
}

// Asks now, and again after the interval unless the page is paused, hidden, or waits for a key.
let isAsking = false;
async function run() {
  clearTimeout(timer);
  if (isAsking || isPaused || document.hidden) return;
  isAsking = true;
  if (answers !== null && seconds() - answeredAt > STALE_SECONDS) {
    showOnly('');
    showState('Connecting …', '');
  }
  try {
    await update();
  } finally {
    isAsking = false;
    const waitsForKey = !by('ask-key').hidden && key.get() === '';
    if (!isPaused && !waitsForKey) timer = setTimeout(run, INTERVAL_MS);
  }
}

by('pause').addEventListener('click', () => {
  isPaused = !isPaused;
  by('pause').setAttribute('aria-pressed', String(isPaused));
  setText(by('pause'), isPaused ? 'Continue' : 'Pause');
  if (isPaused) showState(`Paused at ${clockTime(new Date())}`, 'warn');
  run();
});
by('model').addEventListener('change', () => {
  slowAt = -Infinity;
  if (answers !== null) showAll();
  run();
});
by('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const secret = by('key').value.trim();
  by('key').value = '';
  setText(by('key-error'), '');
  if (!key.set(secret)) return setText(by('key-error'), 'A key has letters, digits and signs of ASCII, and no spaces.');
  run();
});
by('forget').addEventListener('click', () => {
  key.forget();
  forgetNumbers();
  showOnly('');
  run();
});
document.addEventListener('visibilitychange', run);
run();
