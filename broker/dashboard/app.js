// The page: key, views by address, theme, and what is spoken to screen readers.

import { ApiError, call, key, onUnauthorized } from "./api.js";
import { command, h, say } from "./dom.js";
import { Federation } from "./federation.js";
import * as clouds from "./clouds.js";
import * as events from "./events.js";
import * as jobs from "./jobs.js";
import * as leases from "./leases.js";
import * as ledger from "./ledger.js";
import * as table from "./table.js";

const VIEWS = { clouds, table, leases, events, ledger, jobs };
const THEME = "spotfed-theme";
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const link = document.getElementById("link");
const leave = document.getElementById("leave");
const theme = document.getElementById("theme");

let federation = null;
let shown = null; // {name, ending}: the view on the page

/** "#leases/north" is the view leases, of north. */
function address() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  return { name: VIEWS[name] ? name : "clouds", about: rest.join("/") || null };
}

function close() {
  if (shown) shown.view.end();
  shown = null;
}

function open({ focus }) {
  if (!federation) return;
  const { name, about } = address();
  for (const one of nav.querySelectorAll("a")) {
    if (one.hash === `#${name}`) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (shown && shown.name === name) return shown.view.about(about);
  close();
  document.title = `${VIEWS[name].title} – spotfed`;
  const heading = h("h1", { tabindex: "-1" }, VIEWS[name].title);
  main.replaceChildren(heading);
  shown = { name, view: VIEWS[name].mount(main, federation, about) };
  if (focus) {
    window.scrollTo(0, 0);
    heading.focus();
  }
}

function enter() {
  federation = new Federation();
  nav.hidden = leave.hidden = link.hidden = false;
  federation.on("link", ({ text, live }) => {
    link.className = live ? "link live" : "link";
    say(link, live ? "● live" : `○ ${text}`);
  });
  federation.on("news", (text) => say(document.getElementById("news"), text));
  federation.start();
}

function goOut(words = null) {
  close();
  federation?.stop();
  federation = null;
  key.forget();
  nav.hidden = leave.hidden = link.hidden = true;
  ask(words);
}

function ask(words) {
  document.title = "Sign in – spotfed";
  const wrong = h("p", { class: "error", id: "wrong", role: "alert" }, words);
  const input = h("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "wrong",
  });
  const button = h("button", { class: "main" }, "Open the dashboard");
  const form = h(
    "form",
    { class: "card key" },
    h("h1", { tabindex: "-1" }, "Sign in"),
    h("label", { for: "key" }, "API key"),
    input,
    wrong,
    button,
    h("h2", {}, "Where is my key?"),
    h(
      "p",
      {},
      "After ",
      command("spotfed up"),
      " the first one is in the file ",
      command("api-key"),
      " of its state directory; the path is in what it printed. On Linux, unless SPOTFED_STATE_DIR says otherwise:",
    ),
    h("p", {}, command("cat ~/.local/state/spotfed/api-key")),
    h("p", {}, "An operator makes keys for others, a viewer’s one for instance:"),
    h("p", {}, command("spotfed key create acme/eyes --role viewer")),
    h("p", { class: "quiet" }, "The key stays in this tab and is sent to this broker only."),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const held = input.value.trim();
    button.disabled = true;
    say(wrong, "");
    try {
      await call("v1/clouds", { held });
    } catch (error) {
      say(wrong, error instanceof ApiError ? error.words : "This cannot be sent as a key: copy it again.");
      if (!(error instanceof ApiError && error.status === 429)) input.setAttribute("aria-invalid", "true");
      input.focus();
      return;
    } finally {
      button.disabled = false;
    }
    key.set(held);
    enter();
    open({ focus: true });
  });
  main.replaceChildren(form);
  input.focus();
}

function dress() {
  const wanted = localStorage.getItem(THEME) || "";
  theme.value = wanted;
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
  window.dispatchEvent(new Event("dressed"));
}

theme.addEventListener("change", () => {
  localStorage.setItem(THEME, theme.value);
  dress();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  window.dispatchEvent(new Event("dressed")),
);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
leave.addEventListener("click", () => goOut());
window.addEventListener("hashchange", () => open({ focus: true }));
onUnauthorized((error) => {
  if (federation) goOut(error.words);
});

dress();
if (key.get()) {
  enter();
  open({ focus: false });
} else ask(null);
