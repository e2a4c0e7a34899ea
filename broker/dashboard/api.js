// The HTTP API: calls with the key, errors in words with what to do, and polling that backs off.

const KEY = "spotfed-key";

/** What went wrong with a call. status 0: nobody answered. problem: as the API told it. */
export class ApiError extends Error {
  constructor(status, problem, retry_s = null) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.retry_s = retry_s;
  }

  /** What happened, and what to do. */
  get words() {
    const detail = this.message.replace(/\.$/, "");
    switch (this.status) {
      case 0:
        return "The broker does not answer. Is it running, and is this machine on its network? It is asked again.";
      case 401:
        return `The API key is not accepted: ${detail}. Enter another one.`;
      case 403:
        return `Not with this key: ${detail}.`;
      case 429:
        return `Too many calls with this key: ${detail}. It is asked again in a moment.`;
      case 503:
      case 507:
        return `The federation cannot answer now: ${detail}. It is asked again.`;
      case 500:
        return "The broker failed over this call; its log says why. Tell its operators.";
      default: {
        const errors = (this.problem.errors || []).map(
          (one) => `${one.field}: ${one.message}${one.accepted ? ` (accepted: ${one.accepted})` : ""}`,
        );
        return errors.length ? errors.join("; ") : `${this.problem.title || "Refused"}: ${detail}.`;
      }
    }
  }
}

/** The key that was entered in this tab. */
export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

let unwanted = () => {};
/** Who is told that the key is not accepted. */
export function onUnauthorized(told) {
  unwanted = told;
}

/** Sends a call and gives the response where it is a success. Throws ApiError, AbortError. */
export async function send(path, { body, headers = {}, signal, held = key.get() } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        Authorization: `Bearer ${held}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { title: "No answer" });
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({ title: response.statusText }));
  const error = new ApiError(response.status, problem, Number(response.headers.get("Retry-After")) || null);
  if (error.status === 401 && held === key.get()) unwanted(error);
  throw error;
}

/** The answer of a call as a value. Throws ApiError, AbortError. */
export async function call(path, options) {
  const response = await send(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { title: "The answer was cut off" });
  }
}

/** Waits, but not beyond an abort. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

const FIRST_MS = 1000; // after a failure
const LONGEST_MS = 20000;

/**
 * Asks again and again: every every_ms while the page is seen, more and more seldom while it fails. told(answer),
 * failed(ApiError). Gives a function that ends it.
 */
export function poll(path, every_ms, told, failed) {
  const ending = new AbortController();
  const signal = ending.signal;
  const seen = () =>
    new Promise((resolve) => {
      if (!document.hidden) return resolve();
      const look = () => document.hidden || (document.removeEventListener("visibilitychange", look), resolve());
      document.addEventListener("visibilitychange", look);
      signal.addEventListener("abort", resolve, { once: true });
    });
  (async () => {
    let failures = 0;
    while (!signal.aborted) {
      let wait_ms = every_ms;
      try {
        const answer = await call(typeof path === "function" ? path() : path, { signal });
        if (signal.aborted) return;
        failures = 0;
        told(answer);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        failures += 1;
        wait_ms = Math.min(Math.max((error.retry_s || 0) * 1000, FIRST_MS * 1.5 ** failures), LONGEST_MS);
        failed(error);
      }
      await pause(wait_ms, signal);
      await seen();
    }
  })();
  return () => ending.abort();
}
