// Batch jobs: which cloud and which fault tolerance was chosen for each, and what came of its attempts.

import { poll } from "./api.js";
import { Rows, badge, command, empty, h, say, table } from "./dom.js";
import { several } from "./words.js";

export const title = "Jobs";

const ASKED_MS = 3000;
const LOOKS = { running: "busy", finished: "good", failed: "bad", cancelled: "none" };
const text = (value) =>
  value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(" ") : String(value);
const cost = (value, unit) => (unit === "usd" ? `$${value.toFixed(4)}` : `${value.toFixed(2)} core-hours`);

function attempts(job) {
  const { box, body } = table(`Attempts of ${job.name ?? job.id}`, [
    "Attempt",
    "Cloud",
    "Fault tolerance",
    "Outcome",
    ["Cost", "num"],
    "Why there, and why it ended",
  ]);
  for (const one of job.attempts) {
    body.append(
      h(
        "tr",
        {},
        h("th", { scope: "row" }, text(one.number)),
        h("td", {}, text(one.cloud)),
        h("td", {}, text(one.mechanism)),
        h("td", {}, text(one.outcome)),
        h("td", { class: "num" }, cost(one.cost, job.unit)),
        h("td", {}, [one.began, one.ended].filter(Boolean).join("; ")),
      ),
    );
  }
  return box;
}

function card(job) {
  const state = h("span", {}),
    words = h("p", {}),
    more = h("div", {});
  const summary = h("summary", {}, "Attempts");
  const details = h("details", {}, summary, more);
  const element = h(
    "li",
    { class: "card job", dataset: { job: job.id } },
    h("h2", {}, job.name ?? job.id, " ", state),
    h("p", { class: "sub" }, `id ${job.id}`),
    words,
    job.command && h("p", {}, h("code", { class: "command" }, text(job.command))),
    details,
  );
  let before = "";
  return {
    element,
    tell(now) {
      const told = JSON.stringify(now);
      if (told === before) return;
      before = told;
      state.replaceChildren(badge(LOOKS[now.state] || "idle", text(now.state)));
      say(words, now.ended_at === null ? `${now.said} Cost so far: ${cost(now.cost, now.unit)}.` : now.said);
      details.hidden = !now.attempts.length;
      say(summary, several(now.attempts.length, "attempt"));
      if (now.attempts.length) more.replaceChildren(attempts(now));
    },
  };
}

export function mount(root) {
  const status = h("p", { class: "error", role: "status" });
  const list = h("ul", { class: "jobs" });
  const none = h("div", {});
  root.append(status, list, none);
  const rows = new Rows(list, (job) => job.id, card);
  const stop = poll(
    "v1/jobs",
    ASKED_MS,
    ({ jobs }) => {
      say(status, "");
      rows.show(jobs);
      const first = h("span", {}, "Hand one over with ", command("spotfed job submit -- COMMAND"), ".");
      none.replaceChildren(...(jobs.length ? [] : [empty("No job has been given to this federation yet.", first)]));
    },
    (error) => say(status, error.words),
  );
  return { about() {}, end: stop };
}
