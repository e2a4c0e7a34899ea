// Batch jobs: which cloud and which fault tolerance was chosen for each, and what came of its attempts.

import { poll } from "./api.js";
import { Rows, badge, empty, h, say, table } from "./dom.js";
import { several } from "./words.js";

export const title = "Jobs";

const ASKED_MS = 3000;
const LOOKS = {
  running: "busy",
  completed: "good",
  succeeded: "good",
  done: "good",
  failed: "bad",
  cancelled: "none",
};
const text = (value) =>
  value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(" ") : String(value);
const money = (value) => (typeof value === "number" ? `$${value.toFixed(4)}` : text(value));

function attempts(job) {
  const { box, body } = table(`Attempts of ${job.name ?? job.id}`, [
    "Attempt",
    "Cloud",
    "Fault tolerance",
    "Outcome",
    ["Cost", "num"],
    "Why",
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
        h("td", { class: "num" }, money(one.cost)),
        h("td", {}, text(one.why)),
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
      say(
        words,
        [
          now.said ?? now.explanation,
          now.cost !== null && now.cost !== undefined && `Cost so far: ${money(now.cost)}.`,
        ]
          .filter(Boolean)
          .join(" "),
      );
      const made = now.attempts || [];
      details.hidden = !made.length;
      say(summary, several(made.length, "attempt"));
      if (made.length) more.replaceChildren(attempts(now));
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
    (answer) => {
      const found = Array.isArray(answer) ? answer : answer.jobs || [];
      say(status, "");
      rows.show(found);
      none.replaceChildren(
        ...(found.length
          ? []
          : [
              empty(
                "No job has been given to this federation yet.",
                "POST /v1/jobs takes one; the API's page tells how.",
              ),
            ]),
      );
    },
    (error) => {
      if (error.status !== 404) return void say(status, error.words);
      stop();
      say(status, "");
      rows.show([]);
      none.replaceChildren(
        empty(
          "This federation runs no jobs.",
          "Its broker has no job manager. Leases can be asked for one by one with spotfed submit.",
        ),
      );
    },
  );
  return { about() {}, end: stop };
}
