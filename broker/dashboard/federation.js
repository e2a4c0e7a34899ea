// What the page knows of the federation: its clouds, asked for again and again, and its events as they come.

import { poll, send } from "./api.js";
import { several } from "./words.js";
import { Stream } from "./stream.js";

const ASKED_MS = 2000;
const RECENT_MS = 60000; // events of the last minute are shown too
const KEPT = 1000;
const SPOKEN_MS = 3000;

export class Federation {
  constructor() {
    this.listeners = new Map();
    this.clouds = null; // null: not known yet
    this.error = null;
    this.events = []; // newest last, at most KEPT
    this.seen = 0; // events in all
    this.link = { text: "connecting", live: false };
    this.evictions = [];
    this.stops = [];
  }

  /** Calls back on clouds, events, gap, link or news; gives a function that ends it. */
  on(topic, told) {
    if (!this.listeners.has(topic)) this.listeners.set(topic, new Set());
    this.listeners.get(topic).add(told);
    return () => this.listeners.get(topic).delete(told);
  }

  emit(topic, value) {
    for (const told of this.listeners.get(topic) || []) told(value);
  }

  start() {
    const clouds = poll(
      "v1/clouds",
      ASKED_MS,
      (answer) => {
        this.clouds = answer.clouds;
        this.error = null;
        this.emit("clouds");
      },
      (error) => {
        this.error = error;
        this.emit("clouds");
      },
    );
    this.stream = new Stream({
      event: (event, id) => this.note(event, id),
      state: (text, live) => {
        this.link = { text, live };
        this.emit("link", this.link);
      },
      gap: () => this.emit("gap"),
    });
    this.stops.push(
      clouds,
      () => this.stream.stop(),
      () => clearTimeout(this.speaking),
      () => cancelAnimationFrame(this.telling),
    );
    this.follow();
  }

  async follow() {
    // The machines' clocks may differ: the place to begin at is told by that of the broker.
    let now_ms = Date.now();
    try {
      const response = await send("healthz");
      now_ms = Date.parse(response.headers.get("Date")) || now_ms;
    } catch {
      /* the stream tells that nobody answers */
    }
    this.since_ms = now_ms;
    this.stream.follow(String(now_ms - RECENT_MS));
  }

  stop() {
    for (const stop of this.stops) stop();
  }

  note(event, id) {
    this.events.push({ event, id });
    this.seen += 1;
    if (this.events.length > 2 * KEPT) this.events.splice(0, this.events.length - KEPT);
    (this.fresh ||= []).push(event);
    // However many come at once, views are told once a frame.
    this.telling ||= requestAnimationFrame(() => this.tell());
    if (event.kind === "evicted" && Number(id.split("-")[0]) >= this.since_ms) this.speak(event);
  }

  tell() {
    this.telling = null;
    const fresh = this.fresh;
    this.fresh = null;
    this.emit("events", fresh);
  }

  /** Evictions for screen readers: some together, not each of a burst. */
  speak(event) {
    this.evictions.push(event);
    this.speaking ||= setTimeout(
      () => {
        this.speaking = null;
        const found = this.evictions.splice(0);
        const last = found[found.length - 1];
        const where = [...new Set(found.map((one) => one.cloud))];
        this.emit(
          "news",
          found.length === 1
            ? `Evicted: ${last.lease.id} on ${last.cloud}${last.cause ? `, because of ${last.cause}` : ""}`
            : `${several(found.length, "eviction")} on ${where.slice(0, 3).join(", ")}${where.length > 3 ? " and others" : ""}`,
        );
      },
      this.spoken ? SPOKEN_MS : 0,
    );
    this.spoken = true;
  }

  /** The newest first. */
  recent() {
    return this.events.slice(-KEPT).reverse();
  }

  cloud(id) {
    return (this.clouds || []).find((view) => view.info.id === id) || null;
  }
}
