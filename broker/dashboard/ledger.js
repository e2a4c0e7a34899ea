// Promised against realised evictions, with exact intervals.

import { poll } from "./api.js";
import { badge, cardRow, empty, h, labelled, say, select, table } from "./dom.js";
import { number, percent, several } from "./words.js";

export const title = "Ledger of promises";

const ASKED_MS = 5000;
const KEPT = { yes: ["good", "kept"], broken: ["bad", "broken"], open: ["idle", "open"] };
const ORDER = { broken: 0, open: 1, yes: 2 };
const WAYS = [
  ["cloud,sla", "by cloud and SLA"],
  ["cloud", "by cloud"],
  ["sla", "by SLA"],
  ["origin", "by origin"],
  ["", "all together"],
];

/** The interval on a scale from 0 to twice the promise, which stands in the middle. */
function range(entry) {
  const end = entry.promised > 0 ? 2 * entry.promised : 1;
  const at = (value) => `${Math.min(value / end, 1) * 100}%`;
  const from = Math.min(entry.at_least / end, 0.92); // what lies beyond is seen at the edge
  const span = h("span", { class: `range ${entry.kept}` });
  span.style.setProperty("left", `${from * 100}%`);
  span.style.setProperty("right", `${100 - Math.min(entry.at_most / end, 1) * 100}%`);
  const made = h("span", { class: "interval", "aria-hidden": "true" }, span, h("span", { class: "promise" }));
  if (entry.promised === 0) made.lastChild.style.setProperty("left", "0%");
  if (entry.realised !== null && entry.realised <= end) {
    const dot = h("span", { class: "dot" });
    dot.style.setProperty("left", at(entry.realised));
    made.append(dot);
  }
  if (entry.at_most > end) made.append(h("span", { class: "beyond" }, "›"));
  return made;
}

export function mount(root, federation) {
  let by = WAYS[0][0],
    stop = () => {};
  const status = h("p", { class: "error", role: "status" });
  const way = select(WAYS, by, (value) => {
    by = value;
    begin();
  });
  const said = h("p", { class: "quiet" });
  const content = h("div", {});
  root.append(
    status,
    h(
      "p",
      {},
      "An SLA is a promise about the share of instances that are evicted before their time. This is what became of it: ",
      "the true share lies in the interval with 95 % confidence, whatever becomes of those that run now.",
    ),
    h("div", { class: "toolbar" }, labelled("Show", way)),
    said,
    content,
  );

  function show(answer) {
    say(status, "");
    const broken = answer.entries.filter((one) => one.kept === "broken").length;
    const missing = answer.clouds.reduce((sum, one) => sum + one.missing, 0);
    say(
      said,
      !answer.entries.length
        ? ""
        : (broken ? `${several(broken, "promise")} broken. ` : "No promise is broken. ") +
            (missing ? `${several(missing, "event")} that are no longer kept are not counted.` : ""),
    );
    if (!answer.entries.length) {
      return void content.replaceChildren(
        empty(
          "No promise has been made yet.",
          h(
            "span",
            {},
            "Leases without an SLA are in no account. Ask for one with: ",
            h("code", { class: "command" }, "spotfed submit --cores 1 --lifetime 2h --sla 0.05"),
            ".",
          ),
        ),
      );
    }
    const names = by.split(",").filter(Boolean);
    const heads = [
      ...(names.length
        ? names.map((one) => (one === "sla" ? "SLA" : one[0].toUpperCase() + one.slice(1)))
        : ["Accounts"]),
      ["Promised at most", "num"],
      ["Realised", "num"],
      "Interval around the promise",
      "Verdict",
      ["Made", "num"],
      ["Running", "num"],
      ["Kept", "num"],
      ["Evicted", "num"],
      ["Estimated", "num"],
    ];
    const { box, body } = table("Promised against realised", heads, { hidden: true, cards: true });
    for (const one of [...answer.entries].sort((entry, other) => ORDER[entry.kept] - ORDER[other.kept])) {
      const [kind, words] = KEPT[one.kept];
      const [first, ...others] = names.length ? names.map((name) => String(one[name])) : ["all"];
      body.append(
        cardRow(
          heads,
          h(
            "tr",
            { dataset: { kept: one.kept } },
            h("th", { scope: "row" }, first),
            others.map((name) => h("td", {}, name)),
            h("td", { class: "num" }, percent(one.promised)),
            h("td", { class: "num" }, one.realised === null ? "–" : percent(one.realised)),
            h(
              "td",
              { class: "range-cell" },
              range(one),
              h("span", { class: "sub" }, `${percent(one.at_least)} to ${percent(one.at_most)}`),
            ),
            h("td", {}, badge(kind, words)),
            ...[one.admitted, one.running, one.completed, one.evicted].map((count) =>
              h("td", { class: "num" }, number(count)),
            ),
            h("td", { class: "num" }, percent(one.mean_risk)),
          ),
        ),
      );
    }
    // Who reads it with the keyboard is not thrown out of the table.
    const inside = content.contains(document.activeElement);
    const left = content.querySelector(".scroller")?.scrollLeft ?? 0;
    content.replaceChildren(
      box,
      h(
        "p",
        { class: "quiet" },
        "In the interval column the line is the promise, the scale ends at twice of it, the dot is what was realised; ",
        "› goes beyond. A verdict is open while the interval holds the promise.",
      ),
    );
    box.scrollLeft = left;
    if (inside) box.focus({ preventScroll: true });
  }

  function begin() {
    stop();
    stop = poll(`v1/ledger?by=${encodeURIComponent(by)}`, ASKED_MS, show, (error) => say(status, error.words));
  }
  begin();
  return { about() {}, end: () => stop() };
}
