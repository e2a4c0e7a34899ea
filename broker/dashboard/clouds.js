// All clouds now: what needs attention, the whole federation, and a row a cloud.

import { Rows, badge, cardRow, command, empty, h, say, select, table } from "./dom.js";
import { DISCLOSURE, byName, duration, number, several, sla } from "./words.js";

export const title = "Clouds";

const ORDERS = {
  order: ["as they joined", () => 0],
  trouble: ["trouble first", (one, other) => rank(one) - rank(other)],
  name: ["by name", (one, other) => byName(one.info.id, other.info.id)],
  free: ["most free cores first", (one, other) => (other.advert?.free_cores ?? -1) - (one.advert?.free_cores ?? -1)],
  size: ["largest first", (one, other) => other.info.cores - one.info.cores],
};

const rank = (view) => (!view.reachable ? 0 : view.broken_promises.length ? 1 : view.advert?.closed_nodes ? 2 : 3);
const told = (view) =>
  view.advert && view.advert.disclosure !== undefined && view.advert.disclosure !== "full"
    ? false
    : Boolean(view.advert);

/** A bar of cores: own users, spot, free, and those of closed nodes. */
function bar() {
  const parts = ["own", "spot", "free", "closed"].map((name) => h("span", { class: name }));
  return {
    element: h("span", { class: "cores-bar", "aria-hidden": "true" }, parts),
    tell({ own, spot, free, all }) {
      const shares = [own, spot, free, Math.max(0, all - own - spot - free)];
      parts.forEach((part, place) => part.style.setProperty("width", `${all ? (100 * shares[place]) / all : 0}%`));
    },
  };
}

const load = (view) => ({
  own: view.advert.on_demand_cores,
  spot: view.advert.spot_cores,
  free: view.advert.free_cores,
  all: view.info.cores,
});

function loadWords({ own, spot, free, all }) {
  const closed = all - own - spot - free;
  return (
    `${number(own)} own · ${number(spot)} spot · ${number(free)} free` +
    `${closed > 0 ? ` · ${number(closed)} closed` : ""} of ${number(all)}`
  );
}

const NAMED = 2;

/** A line for each cloud, or one for all of them where there are many. */
function together(views, one, all) {
  if (views.length <= NAMED) return views.map(one);
  const names = views.map((view) => view.info.id);
  const most = names.slice(0, 8);
  return [
    all(names.length > most.length ? `${most.join(", ")} and ${names.length - most.length} more` : most.join(", ")),
  ];
}

/** Since when a cloud is silent, in words. */
function silence(view) {
  if (view.advert_age_s === null) return "nothing was heard of it yet";
  const since = new Date(Date.now() - view.advert_age_s * 1000).toLocaleTimeString("en-GB");
  return `silent since ${since} (${duration(view.advert_age_s)})`;
}

function tile(label) {
  const value = h("span", { class: "tile-value" }, "–");
  const more = h("span", { class: "tile-more" });
  return {
    element: h("div", { class: "tile" }, h("span", { class: "tile-label" }, label), value, more),
    value,
    more,
  };
}

const HEADS = [
  "Cloud",
  "Health",
  "Cores",
  ["Spot leases", "num"],
  ["Evicted", "num"],
  "Quantile table",
  "Discloses",
  "Promises",
];

function row(view) {
  const cores = bar();
  const words = h("span", {});
  const since = h("span", { class: "sub" });
  const health = h("td", { class: "badges" });
  const cells = Object.fromEntries(["leases", "evicted", "age", "tells", "word"].map((name) => [name, h("td", {})]));
  for (const name of ["leases", "evicted"]) cells[name].className = "num";
  const element = cardRow(
    HEADS,
    h(
      "tr",
      { dataset: { cloud: view.info.id } },
      h(
        "th",
        { scope: "row" },
        h("a", { href: `#leases/${view.info.id}`, "aria-label": `${view.info.id}: its leases` }, view.info.id),
        h("span", { class: "sub" }, `nodes ${view.info.nodes}`),
      ),
      health,
      h("td", { class: "cores" }, cores.element, words),
      ...Object.values(cells),
    ),
  );
  let before = "";
  return {
    element,
    tell(now) {
      const { advert } = now;
      element.className = now.reachable ? "" : "down";
      const marks = [now.reachable ? ["good", "reachable"] : ["bad", "unreachable"]];
      if (advert?.closed_nodes) marks.push(["warn", `${several(advert.closed_nodes, "node")} closed`]);
      if (now.info.time === "trace") marks.push(["idle", "in trace time"]);
      if (before !== JSON.stringify(marks)) {
        before = JSON.stringify(marks);
        health.replaceChildren(...marks.map(([kind, text]) => badge(kind, text)), since);
      }
      say(since, now.reachable ? "" : silence(now));
      cores.element.hidden = !told(now);
      if (told(now)) {
        cores.tell(load(now));
        say(words, loadWords(load(now)));
      } else
        say(
          words,
          advert
            ? `not told, of ${number(now.info.cores)}${advert.free_cores ? ": has room" : ": full"}`
            : `of ${number(now.info.cores)}`,
        );
      say(cells.leases, advert && told(now) ? number(advert.spot_leases) : "–");
      say(cells.evicted, advert && told(now) ? `${number(advert.evicted)} of ${number(advert.admitted)}` : "–");
      const made_s = advert?.table_made_at_s ?? null;
      say(cells.age, !advert ? "–" : made_s === null ? "none yet" : `${duration(advert.at_s - made_s)} old`);
      say(cells.tells, advert ? DISCLOSURE[advert.disclosure ?? "full"] : "–");
      const broken = now.broken_promises;
      cells.word.classList.toggle("warned", broken.length > 0);
      say(
        cells.word,
        !advert
          ? "–"
          : broken.length
            ? `broken at SLA ${broken.map((one) => sla(one.sla)).join(", ")}: asked last there`
            : "none broken lately",
      );
    },
  };
}

export function mount(root, federation) {
  let order = "trouble";
  let wanted = "";
  const status = h("p", { class: "error", role: "status" });
  const attention = h("ul", { class: "attention", "aria-label": "What needs attention" });
  const tiles = {
    clouds: tile("Clouds"),
    cores: tile("Cores"),
    leases: tile("Spot leases"),
    evicted: tile("Evictions"),
  };
  const whole = bar();
  tiles.cores.element.classList.add("wide");
  tiles.cores.element.append(whole.element);
  const legend = h(
    "p",
    { class: "legend", "aria-hidden": "true" },
    ["own users", "spot", "free", "closed nodes"].map((text, place) =>
      h("span", {}, h("i", { class: ["own", "spot", "free", "closed"][place] }), text),
    ),
  );
  const filter = h("input", {
    type: "search",
    "aria-label": "Only clouds whose name contains",
    placeholder: "filter by name",
    oninput: () => {
      wanted = filter.value.trim().toLowerCase();
      show();
    },
  });
  const sort = select(
    Object.entries(ORDERS).map(([key, [text]]) => [key, text]),
    order,
    (value) => {
      order = value;
      show();
    },
  );
  sort.setAttribute("aria-label", "Order of the clouds");
  const { box, body } = table("Clouds now", HEADS, { hidden: true, cards: true });
  const rows = new Rows(body, (view) => view.info.id, row);
  const none = h("div", {});
  const overview = h(
    "div",
    {},
    h(
      "div",
      { class: "tiles" },
      Object.values(tiles).map((one) => one.element),
    ),
    h("div", { class: "toolbar" }, filter, sort, legend),
  );
  const content = h("div", { hidden: true }, attention, overview, box, none);
  const waiting = h("p", { class: "quiet" }, "Asking the broker …");
  root.append(status, waiting, content);

  let troubles = "";
  function warn(clouds) {
    const found = [
      ...together(
        clouds.filter((view) => !view.reachable),
        (view) => [
          "bad",
          "down",
          `${view.info.id} is unreachable: ` +
            `${silence(view)}. Nothing new goes there; what runs there counts as running.`,
        ],
        (names) => [
          "bad",
          "down",
          `${names} are unreachable. Nothing new goes there; what runs there counts as running.`,
        ],
      ),
      ...together(
        clouds.filter((view) => view.broken_promises.length),
        (view) => [
          "warn",
          "promise",
          `${view.info.id} ` + `${view.broken_promises.map((one) => one.detail).join("; ")}. It is asked last there.`,
        ],
        (names) => [
          "warn",
          "promises",
          `${names} broke promises lately and are asked last there; the ledger has the figures.`,
        ],
      ),
      ...together(
        clouds.filter((view) => view.advert?.closed_nodes),
        (view) => [
          "warn",
          "closed",
          `${view.info.id}: ` +
            `${several(view.advert.closed_nodes, "node")} cordoned or drained; spotfed cloud reopen opens them again.`,
        ],
        (names) => ["warn", "closed", `${names} have nodes that are cordoned or drained.`],
      ),
    ];
    if (troubles === JSON.stringify(found)) return;
    troubles = JSON.stringify(found);
    attention.replaceChildren(
      ...found.map(([kind, mark, text]) => h("li", { class: kind }, badge(kind, mark), " ", text)),
    );
    attention.hidden = !found.length;
  }

  function show() {
    say(status, federation.error ? federation.error.words : "");
    const clouds = federation.clouds;
    if (!clouds) return;
    waiting.remove();
    content.hidden = false;
    warn(clouds);
    const telling = clouds.filter((view) => view.reachable && told(view));
    const sum = { own: 0, spot: 0, free: 0, all: 0 };
    let leases = 0,
      evicted = 0,
      admitted = 0;
    for (const view of telling) {
      for (const [name, value] of Object.entries(load(view))) sum[name] += value;
      leases += view.advert.spot_leases;
      evicted += view.advert.evicted;
      admitted += view.advert.admitted;
    }
    const others = clouds.length - telling.length;
    say(tiles.clouds.value, `${clouds.filter((view) => view.reachable).length} of ${clouds.length}`);
    say(tiles.clouds.more, "reachable");
    say(tiles.cores.value, `${number(sum.free)} free`);
    say(
      tiles.cores.more,
      loadWords(sum) + (others ? `; not counted: ${several(others, "cloud")} unreachable or telling no load` : ""),
    );
    whole.tell(sum);
    say(tiles.leases.value, number(leases));
    say(tiles.leases.more, "running or reserved");
    say(tiles.evicted.value, number(evicted));
    say(tiles.evicted.more, `of ${number(admitted)} admitted since the clouds began`);
    const listed = clouds.filter((view) => view.info.id.toLowerCase().includes(wanted)).sort(ORDERS[order][1]);
    rows.show(listed);
    overview.hidden = !clouds.length;
    box.hidden = !listed.length;
    none.replaceChildren(
      ...(listed.length
        ? []
        : [
            clouds.length
              ? empty(`No cloud's name contains “${wanted}”.`)
              : empty(
                  "No cloud has joined the federation yet.",
                  h(
                    "span",
                    {},
                    "Start an owner for each: ",
                    command("python -m workers.owner --help"),
                    ", or three simulated ones with ",
                    command("spotfed up"),
                    ".",
                  ),
                ),
          ]),
    );
  }

  const off = federation.on("clouds", show);
  show();
  return { about() {}, end: off };
}
