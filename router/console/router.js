// Asks the router. The key, if it wants one, is kept for this tab alone.

const STORED_KEY = 'roost-console-key';
const PATIENCE_MS = 5000;
// What a header can carry. A key has no other characters.
const SENDABLE = /^[\x21-\x7e]+$/;

// The router did not answer: it is gone, it hangs, or the way to it is cut.
export class Unreachable extends Error {}

// It answered with an error.
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORED_KEY) ?? '',
  // False if no header could carry it.
  set(secret) {
    if (!SENDABLE.test(secret)) return false;
    sessionStorage.setItem(STORED_KEY, secret);
    return true;
  },
  forget: () => sessionStorage.removeItem(STORED_KEY),
};

async function ask(path) {
  const headers = key.get() === '' ? {} : { Authorization: `Bearer ${key.get()}` };
  const options = { headers, cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(PATIENCE_MS) };
  try {
    // The page is /console/; the routes are beside it.
    const answer = await fetch(new URL(`../${path}`, document.baseURI), options);
    return { status: answer.status, text: await answer.text() };
  } catch (error) {
    throw new Unreachable(error.message);
  }
}

export async function getText(path) {
  const { status, text } = await ask(path);
  if (status === 200) return text;
  let message = `the answer has status ${status}`;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // Not from the router, then, but from a proxy before it.
  }
  throw new Refusal(status, message);
}

export async function getJson(path) {
  const text = await getText(path);
  try {
    return JSON.parse(text);
  } catch {
    throw new Unreachable('the answer is not the router’s');
  }
}
