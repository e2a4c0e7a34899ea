// What happens to leases, as it happens: newest first.

import { EVENT_KINDS } from "./codes.js";
import { badge, calmly, cardRow, choices, empty, h, say, select, table } from "./dom.js";
import { clock, cores, detail, several } from "./words.js";

export const title = "Events";

const HEADS = ["Time", "Cloud", "What", "Lease", "Details"];
const SHOWN = 200;
const DRAWN_MS = 250;

export function mount(root, federation) {
  let cloud = "",
    kind = "",
    held = null;
  const again = () => {
    draw();
  };
  const clouds = select([["", "all clouds"]], "", (value) => {
    cloud = value;
    again();
  });
  clouds.setAttribute("aria-label", "Of which cloud");
  const kinds = select([["", "all kinds"], ...Object.keys(EVENT_KINDS).map((one) => [one, one])], "", (value) => {
    kind = value;
    again();
  });
  kinds.setAttribute("aria-label", "Of which kind");
  const pause = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        held = held ? null : federation.recent();
        pause.setAttribute("aria-pressed", String(Boolean(held)));
        draw();
      },
    },
    "Pause",
  );
  const status = h("p", { class: "quiet" });
  const lost = h("p", { class: "error", role: "status" });
  const { box, body } = table("Events, newest first", HEADS, { hidden: true, cards: true });
  box.classList.add("events");
  const none = h("div", {});
  root.append(lost, h("div", { class: "toolbar" }, clouds, kinds, pause), status, box, none);

  function row({ event, id }) {
    const lease = event.lease;
    return cardRow(
      HEADS,
      h(
        "tr",
        { dataset: { id, kind: event.kind } },
        h("td", {}, h("time", { datetime: event.at }, clock(event.at))),
        h("td", {}, event.cloud),
        h("td", {}, badge(EVENT_KINDS[event.kind] || "idle", event.kind)),
        h(
          "th",
          { scope: "row", class: "id" },
          lease.id,
          h("span", { class: "sub" }, `${cores(lease.cores)}, from ${lease.origin}`),
        ),
        h("td", {}, detail(event)),
      ),
    );
  }

  function draw() {
    calm.stop();
    const all = held || federation.recent();
    const found = all.filter(({ event }) => (!cloud || event.cloud === cloud) && (!kind || event.kind === kind));
    const most = found.slice(0, SHOWN);
    // Rows that are there already stay: only what is new is made.
    const before = new Map([...body.children].map((one) => [one.dataset.id, one]));
    body.replaceChildren(...most.map((one) => before.get(one.id) || row(one)));
    box.hidden = !most.length;
    say(
      status,
      `${held ? "Paused. " : ""}${several(most.length, "event")} shown` +
        `${found.length > most.length ? ` of the last ${found.length}` : ""}, ${federation.seen.toLocaleString("en")} arrived in all.`,
    );
    none.replaceChildren(
      ...(most.length
        ? []
        : [
            empty(
              cloud || kind ? "No such event lately." : "Nothing has happened in the last minute.",
              h(
                "span",
                {},
                "An event appears here as soon as a spot lease begins or ends. Ask for one: ",
                h("code", { class: "command" }, "spotfed submit --cores 1 --lifetime 2h --sla 0.05"),
                ".",
              ),
            ),
          ]),
    );
  }
  const calm = calmly(() => {
    if (!held) draw();
  }, DRAWN_MS);

  function tell() {
    say(
      lost,
      federation.link.live
        ? ""
        : `Events do not arrive now (${federation.link.text}). What is missed is read afterwards.`,
    );
    if (federation.clouds)
      choices(clouds, [["", "all clouds"], ...federation.clouds.map((view) => [view.info.id, view.info.id])]);
  }
  const offs = [
    federation.on("events", calm),
    federation.on("link", tell),
    federation.on("clouds", tell),
    federation.on("gap", () =>
      say(lost, "Some events are missing here: they were no longer kept. From now on it is complete."),
    ),
  ];
  tell();
  draw();
  return {
    about() {},
    end() {
      calm.stop();
      for (const off of offs) off();
    },
  };
}
