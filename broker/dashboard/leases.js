// Leases of a cloud: on a timeline per node, and as a list. Read once, then kept up to date by the events.

import { ApiError, call } from "./api.js";
import { Rows, badge, calmly, cardRow, choices, empty, h, labelled, say, select, table } from "./dom.js";
import { Timeline } from "./timeline.js";
import { STATES, cores, number, relative, risk, several, sla } from "./words.js";

export const title = "Leases";

const HEADS = ["Lease", "State", ["Node", "num"], ["Cores", "num"], "Began", "End", "Promise", "Cause"];
const AT_ONCE = 1000; // the API tells no more
const PAGE = 50;
const KEPT = 20000;
const DRAWN_MS = 400;

/** Leases of one cloud as far as they are told. */
class Book {
  constructor(cloud) {
    this.cloud = cloud;
    this.leases = new Map();
    this.told = new Set(); // ids of those that events told
    this.short = false; // there are more than are kept
    this.ending = new AbortController();
  }

  /** All that there is, or the first KEPT: those that have not ended, then the latest. told() after each page.
      Throws ApiError, AbortError. */
  async read(told) {
    const path = `v1/leases?cloud=${encodeURIComponent(this.cloud)}&limit=${AT_ONCE}`;
    for (let next = null; ; ) {
      const found = await call(next === null ? path : `${path}&cursor=${next}`, { signal: this.ending.signal });
      for (const lease of found.leases) this.put(lease);
      next = found.next ?? null;
      this.short = next !== null && this.leases.size + AT_ONCE > KEPT;
      if (next === null || this.short) return;
      told();
    }
  }

  /** What an event told meanwhile is newer than what is read. */
  put(lease, byEvent = false) {
    if (byEvent) this.told.add(lease.id);
    else if (this.told.has(lease.id)) return;
    this.leases.set(lease.id, lease);
    if (this.leases.size > KEPT) this.forget();
  }

  /** A tenth of them, those that ended first: a page may stay open for weeks. */
  forget() {
    const ended = [...this.leases.values()].filter((lease) => STATES[lease.state]?.[1]);
    ended.sort((one, other) => (one.ended_at_s ?? 0) - (other.ended_at_s ?? 0));
    for (const { id } of ended.slice(0, this.leases.size - KEPT * 0.9)) {
      this.leases.delete(id);
      this.told.delete(id);
    }
  }

  note(events) {
    let changed = false;
    for (const { cloud, lease } of events) {
      if (cloud !== this.cloud || !lease) continue;
      this.put(lease, true);
      changed = true;
    }
    return changed;
  }
}

/** Cores of each node of a cloud, in order. */
function nodeCores(info) {
  return info.node_kinds.flatMap((kind) => Array(kind.nodes).fill(kind.cores));
}

function cellsOf() {
  const [state, node, size, began, end, promise, why] = Array.from({ length: 7 }, () => h("td", {}));
  return { state, node, size, began, end, promise, why };
}

export function mount(root, federation, about) {
  let cloud = about,
    book = null,
    failure = null,
    reading = false,
    wanted = "",
    state = "",
    page = 0;
  const timeline = new Timeline();
  const status = h("p", { class: "error", role: "status" });
  const which = select([], "", (value) => {
    location.hash = `#leases/${value}`;
  });
  const said = h("p", { class: "quiet" });
  const legend = h(
    "p",
    { class: "legend" },
    [
      ["running", "running (pale: still to come)"],
      ["completed", "completed"],
      ["evicted", "✕ evicted or failed"],
      ["cancelled", "cancelled"],
    ].map(([name, words]) => h("span", {}, h("i", { class: name, "aria-hidden": "true" }), words)),
  );
  const filter = h("input", {
    type: "search",
    "aria-label": "Only leases whose id or origin contains",
    placeholder: "filter by id or origin",
    oninput: () => {
      wanted = filter.value.trim().toLowerCase();
      page = 0;
      list();
    },
  });
  const states = select([["", "all states"], ...Object.keys(STATES).map((one) => [one, one])], "", (value) => {
    state = value;
    page = 0;
    list();
  });
  states.setAttribute("aria-label", "In which state");
  const { box, body } = table("Leases, running ones first, then the latest", HEADS, { hidden: true, cards: true });
  const none = h("div", {});
  const turn = (by) => () => {
    page += by;
    list();
    box.focus({ preventScroll: true });
  };
  const back = h("button", { type: "button", onclick: turn(-1) }, "Newer"),
    on = h("button", { type: "button", onclick: turn(1) }, "Older");
  const where = h("span", { role: "status" });
  const pager = h("div", { class: "pager" }, back, where, on);
  const fresh = h("button", { type: "button", onclick: () => begin() }, "Read again");
  root.append(
    status,
    h("div", { class: "toolbar" }, labelled("Cloud", which), timeline.tools, fresh),
    said,
    h("section", { class: "card", "aria-label": "Timeline" }, timeline.element, legend),
    h(
      "section",
      { "aria-labelledby": "list-title" },
      h("h2", { id: "list-title" }, "List"),
      h("div", { class: "toolbar" }, filter, states),
      box,
      none,
      pager,
    ),
  );

  const now = () => federation.cloud(cloud)?.advert?.at_s ?? null;
  const rows = new Rows(
    body,
    (lease) => lease.id,
    (lease) => {
      const cells = cellsOf();
      const find = h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": `${lease.id}: show it on the timeline`,
          onclick: () => timeline.choose(lease.id),
        },
        lease.id,
      );
      const element = cardRow(
        HEADS,
        h(
          "tr",
          { dataset: { lease: lease.id } },
          h("th", { scope: "row", class: "id" }, find, h("span", { class: "sub" }, `from ${lease.origin}`)),
          cells.state,
          cells.node,
          cells.size,
          cells.began,
          cells.end,
          cells.promise,
          cells.why,
        ),
      );
      cells.node.className = cells.size.className = "num";
      let mark = "";
      return {
        element,
        tell(one) {
          const words = one.ended_at_s === null && one.evict_at_s !== null ? "told to leave" : one.state;
          if (mark !== words) {
            mark = words;
            cells.state.replaceChildren(
              badge(words === one.state ? STATES[one.state]?.[0] || "idle" : "warn", words),
            );
          }
          say(cells.node, String(one.node));
          say(cells.size, number(one.cores));
          say(cells.began, relative(one.starts_at_s, now()));
          say(cells.end, relative(one.ended_at_s ?? one.evict_at_s ?? one.ends_at_s, now()));
          say(
            cells.promise,
            sla(one.promised_sla) === "none"
              ? "none"
              : `SLA ${sla(one.promised_sla)}, risk ${risk(one.eviction_probability)}`,
          );
          say(cells.why, one.cause || "–");
        },
      };
    },
  );

  function list() {
    const all = [...(book?.leases.values() || [])];
    const found = all
      .filter(
        (one) =>
          (!state || one.state === state) &&
          (!wanted || one.id.toLowerCase().includes(wanted) || one.origin.toLowerCase().includes(wanted)),
      )
      .sort(
        (one, other) =>
          (STATES[one.state]?.[1] ? 1 : 0) - (STATES[other.state]?.[1] ? 1 : 0) ||
          (other.ended_at_s ?? other.starts_at_s) - (one.ended_at_s ?? one.starts_at_s) ||
          other.number - one.number,
      );
    const last = Math.max(Math.ceil(found.length / PAGE) - 1, 0);
    page = Math.min(Math.max(page, 0), last);
    rows.show(found.slice(page * PAGE, (page + 1) * PAGE));
    box.hidden = !found.length;
    pager.hidden = last === 0;
    back.disabled = page === 0;
    on.disabled = page === last;
    say(where, `page ${number(page + 1)} of ${number(last + 1)}, ${several(found.length, "lease")}`);
    none.replaceChildren(
      ...(found.length || reading || failure
        ? []
        : [
            all.length
              ? empty("No lease fits this filter.", "Clear it to see all of them.")
              : empty(
                  `${cloud} has no spot leases.`,
                  h(
                    "span",
                    {},
                    "See what it would promise under ",
                    h("a", { href: `#table/${cloud}` }, "What would I get?"),
                    ", then ask: ",
                    h(
                      "code",
                      { class: "command" },
                      `spotfed submit --cores 1 --lifetime 2h --sla 0.05 --cloud ${cloud}`,
                    ),
                  ),
                ),
          ]),
    );
  }

  function draw() {
    const view = federation.cloud(cloud);
    if (!view || !book) return;
    const leases = [...book.leases.values()];
    timeline.show(leases, nodeCores(view.info), now() ?? 0);
    const counts = Object.keys(STATES)
      .map((one) => [one, leases.filter((lease) => lease.state === one).length])
      .filter(([, count]) => count);
    say(
      said,
      reading
        ? `Reading the leases of ${cloud} …${leases.length ? ` ${number(leases.length)} so far.` : ""}`
        : `${several(leases.length, "lease")} known` +
            (counts.length ? `: ${counts.map(([one, count]) => `${number(count)} ${one}`).join(", ")}.` : ".") +
            (book.short ? ` There are more: this page keeps at most ${number(KEPT)}, those that ended last.` : "") +
            (view.reachable ? "" : ` ${cloud} is unreachable: this is what it said last.`),
    );
    list();
  }
  const calm = calmly(draw, DRAWN_MS);

  async function begin() {
    book?.ending.abort();
    const mine = (book = new Book(cloud));
    [failure, reading, page] = [null, true, 0];
    timeline.fitted = timeline.moved = false;
    timeline.choose(null);
    draw();
    try {
      await mine.read(() => mine === book && calm());
    } catch (error) {
      if (mine !== book || mine.ending.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      failure = error;
    }
    if (mine !== book) return;
    reading = false;
    if (!timeline.moved) timeline.fitted = false; // more was read since it was first drawn
    say(status, failure ? `${failure.words} Then press “Read again”.` : "");
    draw();
  }

  function look() {
    if (federation.error) say(status, federation.error.words);
    else if (!failure) say(status, "");
    const clouds = federation.clouds;
    if (!clouds) return;
    if (!clouds.length) return void none.replaceChildren(empty("No cloud has joined the federation yet."));
    if (cloud && !federation.cloud(cloud)) return void say(status, `There is no cloud ${cloud}: choose another one.`);
    choices(
      which,
      clouds.map((view) => [view.info.id, view.info.id + (view.reachable ? "" : " (unreachable)")]),
      cloud ?? clouds[0].info.id,
    );
    cloud ??= which.value;
    if (book?.cloud !== cloud) begin();
    else {
      timeline.tick(now() ?? 0);
      calm();
    }
  }

  const offs = [
    federation.on("clouds", look),
    federation.on("gap", () => begin()),
    federation.on("events", (events) => {
      if (book?.note(events)) calm();
    }),
  ];
  look();
  return {
    about(name) {
      if (name) {
        cloud = name;
        look();
      }
    },
    end() {
      calm.stop();
      timeline.end();
      book?.ending.abort();
      for (const off of offs) off();
    },
  };
}
