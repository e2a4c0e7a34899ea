// The quantile table of a cloud as a heat map, and what would be promised now.

import { ApiError, call } from "./api.js";
import { choices, empty, h, labelled, say, select, table } from "./dom.js";
import { paint, shade } from "./colours.js";
import { mountQuotes } from "./quotes.js";
import { DISCLOSURE, byName, cores, duration, number, several } from "./words.js";

export const title = "Quantile table";

const LOOKED_MS = 1000;

/** "4 cores" or "4 cores, memory_mb 4000": names a flavour. */
function flavour(row) {
  const amounts = Object.entries(row.amounts || {}).map(([name, amount]) => `${name} ${number(amount)}`);
  return [cores(row.cores), ...amounts].join(", ");
}

function heat(rows, now) {
  const levels = Object.keys(rows[0].quantiles_s).sort((one, other) => one - other);
  const found = rows.flatMap((row) => levels.map((level) => row.quantiles_s[level] ?? 0)).filter((one) => one > 0);
  const most = Math.max(...found, 0);
  const least = Math.min(...found, most / 10); // small differences are not to look large
  const { box, body } = table("Longest lifetime that is promised, by free slots and SLA", [
    "Free slots",
    ...levels.map((level) => [`SLA ${level}`, "num"]),
    ["Samples", "num"],
    ["Evicted", "num"],
    ["Followed up", "num"],
  ]);
  box.classList.add("heat");
  for (const row of rows) {
    const here = now !== null && row.free_slots_from <= now && now <= row.free_slots_to;
    const range =
      row.free_slots_to > row.free_slots_from
        ? `${number(row.free_slots_from)}–${number(row.free_slots_to)}`
        : number(row.free_slots_from);
    body.append(
      h(
        "tr",
        { class: here ? "here" : null },
        h("th", { scope: "row" }, range, here && h("span", { class: "sub" }, `now: ${number(now)}`)),
        levels.map((level) => {
          const value = row.quantiles_s[level] ?? 0;
          const cell = h("td", { class: "cell" }, value > 0 ? duration(value) : "nothing");
          if (value > 0) paint(cell, shade(value, least, most));
          return cell;
        }),
        h("td", { class: "num" }, number(row.samples)),
        h("td", { class: "num" }, number(row.evictions)),
        h("td", { class: "num" }, duration(row.followed_up_s)),
      ),
    );
  }
  const scale = h(
    "p",
    { class: "scale" },
    found.length ? duration(least) : "",
    h("span", { class: "viridis", "aria-hidden": "true" }),
    found.length ? `${duration(most)} (logarithmic; darker is shorter)` : "no lifetime is promised",
  );
  return [box, scale];
}

/** What a cloud tells of lifetimes in its usual conditions, in words. */
function told(one) {
  if (one.mean_s !== undefined && one.mean_s !== null) return `${flavour(one)}: ${duration(one.mean_s)} in the mean`;
  if (one.median_s !== undefined && one.median_s !== null)
    return `${flavour(one)}: half live ${duration(one.median_s)}; the percentile is ${duration(one.quantile_s)}`;
  return null;
}

export function mount(root, federation, about) {
  let cloud = about,
    size = null,
    asked = null,
    found = null,
    failure = null,
    version;
  let ending = new AbortController();
  const status = h("p", { class: "error", role: "status" });
  const which = select([], "", (value) => {
    location.hash = `#table/${value}`;
  });
  const sizes = select([], "", (value) => {
    size = value;
    draw();
  });
  const said = h("p", { class: "quiet" });
  const map = h("div", {});
  const quotes = h("section", { class: "card", "aria-labelledby": "quotes-title" });
  root.append(
    status,
    quotes,
    h(
      "section",
      { class: "card", "aria-labelledby": "map-title" },
      h("h2", { id: "map-title" }, "How long an instance lives"),
      h("div", { class: "toolbar" }, labelled("Cloud", which), labelled("Instance", sizes)),
      said,
      map,
    ),
  );
  const endQuotes = mountQuotes(quotes, federation);

  async function read() {
    ending.abort();
    ending = new AbortController();
    const { signal } = ending;
    const wanted = cloud;
    try {
      const answer = await call(`v1/clouds/${encodeURIComponent(wanted)}/table`, { signal });
      if (signal.aborted) return;
      [found, failure] = [answer, null];
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      [found, failure] = [null, error];
      if (error.status !== 404)
        setTimeout(() => {
          if (!signal.aborted) version = undefined;
        }, LOOKED_MS * 3);
    }
    draw();
  }

  function draw() {
    const view = federation.cloud(cloud);
    if (!view) return;
    if (!found) {
      if (!failure) return;
      say(said, "");
      choices(sizes, []);
      const level = view.advert?.disclosure ?? "full";
      map.replaceChildren(
        failure.status === 404
          ? empty(
              `${cloud} shows no quantile table yet.`,
              level === "full"
                ? "Its owner makes one as soon as a Monte-Carlo worker runs. Until then nothing is promised; spotfed doctor tells more."
                : `It discloses ${DISCLOSURE[level]}.`,
            )
          : empty("The table cannot be read.", failure.words),
      );
      return;
    }
    const flavours = [...new Set([...found.rows, ...found.lifetimes].map(flavour))].sort(byName);
    choices(
      sizes,
      flavours.map((one) => [one, one]),
      size ?? sizes.value,
    );
    const rows = found.rows.filter((row) => flavour(row) === sizes.value);
    const level = found.disclosure;
    const size_cores = rows[0]?.cores ?? found.lifetimes.find((one) => flavour(one) === sizes.value)?.cores;
    const now =
      level === "full" && view.advert && !Object.keys(rows[0]?.amounts || {}).length
        ? (view.advert.free_slots[size_cores] ?? null)
        : null;
    const age = view.advert ? `${duration(view.advert.at_s - found.made_at_s)} old` : "of unknown age";
    say(
      said,
      `Table ${found.version.slice(0, 8)}, ${age}, by the cloud's own clock. ${cloud} discloses ${DISCLOSURE[level] ?? level}. ` +
        (now === null ? "" : `It has ${several(now, "free slot")} of this size now.`),
    );
    const words =
      level === "full"
        ? []
        : found.lifetimes
            .filter((one) => flavour(one) === sizes.value)
            .map(told)
            .filter(Boolean);
    map.replaceChildren(
      ...(rows.length
        ? heat(rows, now)
        : [empty("No lifetime of this size is promised.", "Ask for another size, or without an SLA (none).")]),
      ...words.map((one) => h("p", {}, one)),
    );
  }

  function look() {
    say(status, federation.error ? federation.error.words : "");
    const clouds = federation.clouds;
    if (!clouds) return;
    if (!clouds.length) return void map.replaceChildren(empty("No cloud has joined the federation yet."));
    if (cloud && !federation.cloud(cloud))
      map.replaceChildren(empty(`There is no cloud ${cloud}.`, "Choose another one above."));
    choices(
      which,
      clouds.map((view) => [view.info.id, view.info.id + (view.reachable ? "" : " (unreachable)")]),
      cloud ?? clouds[0].info.id,
    );
    cloud ??= which.value;
    const view = federation.cloud(cloud);
    const latest = `${cloud} ${view?.advert?.table_version}`;
    if (view && latest !== version) {
      version = latest;
      if (asked !== cloud) [found, failure, asked] = [null, null, cloud];
      read();
    } else if (view) redraw();
  }

  // The room changes all the time; the table is drawn again where that tells something else.
  let drawn = "";
  function redraw() {
    const now = JSON.stringify(federation.cloud(cloud)?.advert?.free_slots);
    if (now !== drawn && !map.contains(document.activeElement)) draw();
    drawn = now;
  }

  const off = federation.on("clouds", look);
  look();
  return {
    about(name) {
      if (name) {
        cloud = name;
        size = null;
        look();
      }
    },
    end() {
      off();
      ending.abort();
      endQuotes();
    },
  };
}
