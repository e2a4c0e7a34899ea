// The events of the federation over fetch, since EventSource sends no API key: parsed, resumed, with patience.

import { ApiError, pause, send } from "./api.js";

const SILENT_MS = 40000; // the API says that it is still here every 15 s
const FIRST_MS = 1000;
const LONGEST_MS = 15000;

/** Splits what arrives into server-sent events {id, event, data}; an id alone has no data. */
export class Parser {
  constructor(told) {
    this.told = told;
    this.rest = "";
    this.clear();
  }

  clear() {
    this.one = { id: null, event: "message", data: [] };
  }

  feed(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.one.id !== null || this.one.data.length) this.told({ ...this.one, data: this.one.data.join("\n") });
      return this.clear();
    }
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
    if (name === "data") this.one.data.push(value || "");
    else if (name === "id" || name === "event") this.one[name] = value || "";
  }
}

/** The merged stream of public events. Tells: event(event, id), state(text, live), gap(), from the first id on. */
export class Stream {
  constructor({ event, state, gap }) {
    Object.assign(this, { event, state, gap });
    this.ending = new AbortController();
    this.last = null;
  }

  /** Follows until it is stopped. since: time to begin at, in milliseconds since 1970. */
  async follow(since) {
    this.last = since;
    const over = this.ending.signal;
    let wait_ms = FIRST_MS;
    let begun = false;
    while (!over.aborted) {
      this.state(begun ? "reconnecting" : "connecting", false);
      try {
        await this.listen(() => {
          begun = true;
          wait_ms = FIRST_MS;
          this.state("live", true);
        });
        wait_ms = FIRST_MS;
      } catch (error) {
        if (over.aborted) return;
        if (error instanceof ApiError && error.status === 401) return;
        if (error instanceof ApiError && error.status === 410) {
          this.last = error.problem.resume_after;
          this.gap();
          continue;
        }
      }
      if (over.aborted) return;
      this.state(`disconnected, next try in ${Math.round(wait_ms / 1000)} s`, false);
      await pause(wait_ms * (0.8 + 0.4 * Math.random()), over);
      wait_ms = Math.min(wait_ms * 2, LONGEST_MS);
    }
  }

  async listen(opened) {
    const one = new AbortController();
    const end = () => one.abort();
    this.ending.signal.addEventListener("abort", end, { once: true });
    let silence = setTimeout(end, SILENT_MS);
    try {
      const response = await send("v1/events", { headers: { "Last-Event-ID": this.last }, signal: one.signal });
      opened();
      const parser = new Parser((told) => {
        if (told.id) this.last = told.id;
        if (told.data) this.event(JSON.parse(told.data), told.id);
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENT_MS);
        parser.feed(part.value);
      }
    } finally {
      clearTimeout(silence);
      this.ending.signal.removeEventListener("abort", end);
    }
  }

  stop() {
    this.ending.abort();
  }
}
