// "What would I get": cores, lifetime and SLA, and what each cloud says to that.

import { ApiError, call } from "./api.js";
import { badge, empty, field, h, say, table } from "./dom.js";
import { REASONS } from "./codes.js";
import { cores, dollars, duration, number, risk, roundedUp, seconds, sla, typed } from "./words.js";

/** Errors are told at the form; counter-offers fill it and ask again. Gives a function that ends it. */
export function mountQuotes(root, federation) {
  let ending = new AbortController();
  const size = h("input", {
    type: "number",
    min: "1",
    max: "1000000",
    step: "1",
    required: true,
    value: "1",
    inputmode: "numeric",
  });
  const lifetime = h("input", { type: "text", required: true, value: "2h", autocomplete: "off" });
  const level = h("input", { type: "text", required: true, value: "0.05", autocomplete: "off" });
  const wrong = h("p", { class: "error", role: "alert" });
  const button = h("button", { class: "main" }, "Ask the clouds");
  const outcome = h("p", { class: "outcome", role: "status" });
  const answer = h("div", { class: "answer" });
  const form = h(
    "form",
    { novalidate: true },
    field("Cores", size),
    field("Lifetime", lifetime, "such as 30m, 2h, 1d"),
    field("SLA", level, "largest risk of eviction, 0 to 1, or none"),
    button,
  );
  root.append(
    h("h2", { id: "quotes-title" }, "What would I get?"),
    h("p", { class: "quiet" }, "Asks every cloud what it would promise now. Nothing is reserved."),
    form,
    wrong,
    outcome,
    answer,
  );

  function wish() {
    for (const input of [size, lifetime, level]) input.removeAttribute("aria-invalid");
    const told = {
      cores: Number(size.value),
      lifetime_s: seconds(lifetime.value),
      sla: level.value.trim().toLowerCase() === "none" ? null : Number(level.value),
    };
    const complain = (input, words) => {
      say(wrong, words);
      input.setAttribute("aria-invalid", "true");
      input.focus();
      return null;
    };
    say(wrong, "");
    if (!Number.isInteger(told.cores) || told.cores < 1) return complain(size, "Cores: a whole number from 1 on.");
    if (!(told.lifetime_s > 0))
      return complain(lifetime, "Lifetime: a number with s, m, h or d, such as 30m, 2h or 1d.");
    const probable = level.value.trim() !== "" && (told.sla === null || (told.sla >= 0 && told.sla <= 1));
    if (!probable) return complain(level, "SLA: a probability from 0 to 1, or none for no promise.");
    return told;
  }

  async function ask() {
    const told = wish();
    if (!told) return;
    ending.abort();
    ending = new AbortController();
    const { signal } = ending;
    answer.setAttribute("aria-busy", "true");
    say(outcome, "Asking …");
    try {
      const found = await call("v1/quotes", { body: told, signal });
      show(found, told);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      say(outcome, "");
      answer.replaceChildren();
      say(
        wrong,
        federation.clouds?.some((view) => view.info.time === "trace")
          ? `${error.words} This federation runs in trace time: it is asked at a time of its own, by spotfed federate.`
          : error.words,
      );
    } finally {
      if (!signal.aborted) answer.removeAttribute("aria-busy");
    }
  }

  function take(change) {
    if (change.cores) size.value = change.cores;
    if (change.lifetime_s) lifetime.value = typed(Math.floor(change.lifetime_s));
    if (change.sla !== undefined) level.value = String(change.sla);
    button.focus();
    ask();
  }

  const offer = (words, change) =>
    h("button", { type: "button", class: "offer", onclick: () => take(change) }, words);

  function offers(refusal) {
    const { lifetime_s, sla: least, cores: largest } = refusal.counter_offers;
    return [
      lifetime_s >= 1 && offer(`${duration(Math.floor(lifetime_s))} at this SLA`, { lifetime_s }),
      least !== null &&
        least !== undefined &&
        (least < 1
          ? offer(`SLA ${roundedUp(least)} for this lifetime`, { sla: roundedUp(least) })
          : offer("without a promise", { sla: "none" })),
      largest && offer(`${cores(largest)} instead`, { cores: largest }),
    ].filter(Boolean);
  }

  const reason = (one) => [
    REASONS[one.reason] || one.reason,
    one.detail && ` (${one.detail})`,
    one.eviction_would_help && h("span", { class: "sub" }, "there would be room without spot instances"),
  ];

  /** Where it could be had on-demand: cloud, price, and what the whole costs. */
  function sold(offers) {
    const { box, body } = table("On-demand instead, which is never taken back", [
      "Cloud",
      ["A core-hour", "num"],
      ["In all", "num"],
    ]);
    for (const one of offers)
      body.append(
        h(
          "tr",
          { dataset: { onDemand: one.cloud } },
          h("th", { scope: "row" }, one.cloud),
          h("td", { class: "num" }, dollars(one.usd_per_core_hour)),
          h("td", { class: "num" }, (one.usd ?? null) === null ? "until it is stopped" : dollars(one.usd)),
        ),
      );
    const how = h("p", { class: "quiet" }, "spotfed submit --or-on-demand takes the cheapest that has room.");
    return [box, how];
  }

  function show({ quotes, refusals, on_demand = [] }, told) {
    const wanted = `${cores(told.cores)} for ${duration(told.lifetime_s)}, ${sla(told.sla) === "none" ? "no promise" : `SLA ${told.sla}`}`;
    say(
      outcome,
      quotes.length
        ? `${wanted}: ${quotes.length} of ${quotes.length + refusals.length} clouds would take it, ${quotes[0].cloud} first.`
        : `${wanted}: no cloud would take it.${refusals.some((one) => offers(one).length) ? " Below is what they would accept instead." : ""}`,
    );
    const parts = [];
    if (quotes.length) {
      const { box, body } = table("Would take it, in the order in which they would be asked", [
        "Cloud",
        ["Risk of eviction", "num"],
        ["Promised for", "num"],
        ["Free slots", "num"],
        ["Table", "num"],
      ]);
      quotes.forEach((one, place) =>
        body.append(
          h(
            "tr",
            { dataset: { cloud: one.cloud } },
            h(
              "th",
              { scope: "row" },
              `${place + 1}.\u00a0${one.cloud}`,
              one.pool !== null && one.pool !== undefined && h("span", { class: "sub" }, `pool ${one.pool}`),
              one.broken_promise && badge("warn", "asked last: it broke its promise"),
            ),
            h("td", { class: "num" }, risk(one.eviction_probability)),
            h("td", { class: "num" }, one.survives_s === null ? "no promise" : `up to ${duration(one.survives_s)}`),
            h("td", { class: "num" }, number(one.free_slots)),
            h("td", { class: "num" }, one.table_age_s === null ? "–" : `${duration(one.table_age_s)} old`),
          ),
        ),
      );
      parts.push(box);
    }
    if (refusals.length) {
      const { box, body } = table("Would not", ["Cloud", "Why not", "Instead"]);
      const alike = new Map(); // those who only say no are many, and say the same
      for (const one of refusals) {
        const instead = offers(one);
        const why = `${one.reason} ${one.detail} ${one.eviction_would_help}`;
        if (!instead.length) {
          alike.set(why, [...(alike.get(why) || []), one]);
          continue;
        }
        body.append(
          h(
            "tr",
            { dataset: { cloud: one.cloud, reason: one.reason } },
            h("th", { scope: "row" }, one.cloud),
            h("td", {}, reason(one)),
            h("td", { class: "offers" }, instead),
          ),
        );
      }
      for (const [one, ...others] of alike.values()) {
        const names = [one, ...others].map((refusal) => refusal.cloud);
        body.append(
          h(
            "tr",
            { dataset: { cloud: names.join(" "), reason: one.reason } },
            h("th", { scope: "row" }, names.join(", ")),
            h("td", {}, reason(one)),
            h("td", {}, "nothing"),
          ),
        );
      }
      parts.push(box);
    }
    if (on_demand.length) parts.push(...sold(on_demand));
    answer.replaceChildren(...(parts.length ? parts : [empty("No cloud has joined the federation yet.")]));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  return () => ending.abort();
}
