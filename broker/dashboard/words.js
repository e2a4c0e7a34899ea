// Numbers, durations and codes as people read them; the command line words them alike.

import { REASONS } from "./codes.js";

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];
const UNIT_S = { s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 };

export const DISCLOSURE = {
  full: "everything",
  mttr: "the mean lifetime only",
  p10: "median and 10th percentile",
  p90: "median and 90th percentile",
  nothing: "nothing of its lifetimes",
};

/** Lease states: kind of badge, and whether it is an end. */
export const STATES = {
  booked: ["idle", false],
  reserved: ["idle", false],
  running: ["busy", false],
  completed: ["good", true],
  evicted: ["bad", true],
  cancelled: ["none", true],
  failed: ["bad", true],
};

/** An amount of money: to the cent, or two digits of what is less. */
export const dollars = (usd) => `${usd >= 0.1 ? usd.toFixed(2) : Number(usd.toPrecision(2))} $`;

/** 90 is "1 min 30 s": the two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (!Number.isFinite(seconds)) return "for ever";
  let rest = Math.round(Math.abs(seconds));
  const parts = [];
  let units = 0;
  for (const [size, name] of UNITS) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count || units) {
      units += 1;
      if (count) parts.push(`${count} ${name}`);
    }
    if (units === 2) break;
  }
  return (seconds < 0 ? "−" : "") + (parts.join(" ") || "0 s");
}

/** Seconds of "2h", "30m", "1d", "90" or "1d 12h"; NaN for anything else. */
export function seconds(text) {
  const found = text.trim().toLowerCase();
  if (/^\d+(\.\d+)?$/.test(found)) return Number(found);
  if (!/^(\d+(\.\d+)?\s*(s|min|m|h|d|w)\s*)+$/.test(found)) return NaN;
  let total = 0;
  for (const [, count, unit] of found.matchAll(/(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)/g)) total += count * UNIT_S[unit];
  return total;
}

/** So many seconds as they are typed in. */
export function typed(whole) {
  const size = ["d", "h", "m"].find((unit) => whole >= UNIT_S[unit] && whole % UNIT_S[unit] === 0);
  return size ? `${whole / UNIT_S[size]}${size}` : `${whole}s`;
}

export const number = (value) => (value ?? 0).toLocaleString("en");
export const cores = (count) => `${number(count)} ${count === 1 ? "core" : "cores"}`;
export const several = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const risk = (value) => (value === null || value === undefined ? "–" : value.toFixed(4));
export const sla = (value) => (value === null || value === undefined || value >= 1 ? "none" : String(value));
/** To four digits, never below: what is asked with the SLA that was shown must be accepted. */
export const roundedUp = (value) => Math.ceil(value * 10000 - 1e-9) / 10000;
export const percent = (value) => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
export const byName = (one, other) => one.localeCompare(other, "en", { numeric: true });

/** When something is, seen from a cloud's now. */
export function relative(at_s, now_s) {
  if (at_s === null || at_s === undefined) return "–";
  if (now_s === null || now_s === undefined) return `at ${duration(at_s)}`;
  const away_s = at_s - now_s;
  if (Math.abs(away_s) < 1) return "now";
  return away_s < 0 ? `${duration(-away_s)} ago` : `in ${duration(away_s)}`;
}

/** What an event tells of its lease, without naming cloud and lease. */
export function detail(event) {
  const lease = event.lease;
  const cause = event.cause ? `, because of ${event.cause}` : "";
  const left = (end_s) => duration((end_s ?? event.at_s) - event.at_s);
  switch (event.kind) {
    case "admitted":
      return (
        `for ${lease.ends_at_s === null ? "as long as it is renewed" : duration(lease.ends_at_s - lease.starts_at_s)}, ` +
        (sla(lease.promised_sla) === "none"
          ? "no promise"
          : `SLA ${sla(lease.promised_sla)}, risk ${risk(lease.eviction_probability)}`)
      );
    case "extended":
      return `for ${left(lease.ends_at_s)} from now, risk ${risk(lease.eviction_probability)}`;
    case "warned":
      return `is not renewed (${REASONS[event.cause] || event.cause}): ends in ${left(lease.ends_at_s)}`;
    case "noticed":
      return `must leave in ${left(lease.evict_at_s)}${cause}`;
    case "offered":
      return `would be taken by ${event.offers.map((one) => one.cloud).join(", ") || "nobody else"}`;
    default:
      return `after ${duration(event.at_s - lease.starts_at_s)}${cause}`;
  }
}

/** A lease in one sentence. */
export function inWords(lease, now_s) {
  const parts = [
    `${lease.id} on node ${lease.node}: ${lease.state}`,
    cores(lease.cores),
    `from ${lease.origin}`,
    `began ${relative(lease.starts_at_s, now_s)}`,
  ];
  if (lease.ended_at_s !== null)
    parts.push(`ended ${relative(lease.ended_at_s, now_s)} after ${duration(lease.ended_at_s - lease.starts_at_s)}`);
  else if (lease.evict_at_s !== null)
    parts.push(`was told to leave, ${relative(lease.evict_at_s, now_s)} at the latest`);
  else if (lease.ends_at_s !== null) parts.push(`ends ${relative(lease.ends_at_s, now_s)}`);
  if (lease.cause) parts.push(`because of ${lease.cause}`);
  parts.push(
    sla(lease.promised_sla) === "none"
      ? "no promise"
      : `SLA ${sla(lease.promised_sla)}, risk ${risk(lease.eviction_probability)}`,
  );
  return parts.join(", ");
}
