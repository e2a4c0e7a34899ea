// Leases of a cloud over its own time, a row a node, on a canvas that draws only what is in sight.

import { h, say } from "./dom.js";
import { LANE, begins, between, ends, layOut } from "./lanes.js";
import { AXIS, GUTTER, Painter } from "./painting.js";
import { inWords } from "./words.js";

const CLOSEST_S = 10;
const WIDEST_S = 3e9;

export class Timeline {
  constructor() {
    this.now_s = 0;
    this.from_s = -3600; // of the window, from now
    this.to_s = 3600;
    this.plan = layOut([], []);
    this.chosen = null;
    this.fitted = false; // it has begun with all that there is
    this.moved = false; // by hand
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-describedby": "timeline-help",
      "aria-label": "Leases per node over time",
    });
    this.painter = new Painter(this.canvas);
    this.spacer = h("div", { class: "spacer" }, this.canvas);
    this.scroller = h("div", { class: "timeline" }, this.spacer);
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.readout = h("p", { class: "readout", role: "status" });
    const zoom = (words, factor) =>
      h("button", { type: "button", onclick: () => this.zoom(factor), "aria-label": words }, factor < 1 ? "+" : "−");
    const pan = (words, share, sign) =>
      h(
        "button",
        { type: "button", onclick: () => this.pan(share * (this.to_s - this.from_s)), "aria-label": words },
        sign,
      );
    this.tools = h(
      "div",
      { class: "buttons", role: "group", "aria-label": "Time shown" },
      zoom("Zoom in", 0.5),
      zoom("Zoom out", 2),
      pan("Earlier", -0.5, "◀"),
      pan("Later", 0.5, "▶"),
      h("button", { type: "button", onclick: () => this.fit() }, "Show all"),
    );
    this.element = h(
      "div",
      { class: "timeline-box" },
      this.scroller,
      this.tip,
      this.readout,
      h(
        "p",
        { class: "hint", id: "timeline-help" },
        "Arrow keys go from lease to lease (up and down: to another node), + and − zoom, Escape lets go. ",
        "Drag to move in time, Ctrl and wheel zoom.",
      ),
    );
    this.listen();
  }

  listen() {
    const soon = () => this.soon();
    this.scroller.addEventListener("scroll", soon, { passive: true });
    this.sizes = new ResizeObserver(soon);
    this.sizes.observe(this.scroller);
    this.dressed = () => {
      this.painter.undress();
      this.soon();
    };
    window.addEventListener("dressed", this.dressed);
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("focus", soon);
    this.canvas.addEventListener("blur", soon);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, from_s: this.from_s, to_s: this.to_s, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.choose(this.at(event)?.lease.id ?? null);
      this.drag = null;
    });
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.time(event.offsetX));
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(this.seconds(event.deltaX));
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
  }

  end() {
    this.sizes.disconnect();
    window.removeEventListener("dressed", this.dressed);
    cancelAnimationFrame(this.frame);
  }

  /** What there is to show: leases, cores of each node, and the cloud's time. */
  show(leases, nodes, now_s) {
    this.plan = layOut(leases, nodes);
    this.now_s = now_s;
    if (!this.fitted && leases.length) this.fit();
    this.canvas.dataset.rows = this.plan.rows.length;
    this.soon();
  }

  tick(now_s) {
    this.now_s = now_s;
    this.soon();
  }

  fit() {
    const known = [...this.plan.byId.values()].map((bar) => bar.lease);
    const first_s = Math.min(...known.map(begins).map((at_s) => at_s - this.now_s), -60);
    const last_s = Math.max(
      ...known
        .map(ends)
        .filter(Number.isFinite)
        .map((at_s) => at_s - this.now_s),
      60,
    );
    const edge_s = (last_s - first_s) * 0.02;
    this.from_s = first_s - edge_s;
    this.to_s = last_s + edge_s;
    this.fitted = known.length > 0;
    this.moved = false;
    this.soon();
  }

  zoom(factor, about_s = null) {
    const span_s = this.to_s - this.from_s;
    const wanted_s = Math.min(Math.max(span_s * factor, CLOSEST_S), WIDEST_S);
    // By the buttons: about now where that is in sight, else about the middle.
    const fixed_s = about_s ?? (this.from_s < 0 && this.to_s > 0 ? 0 : (this.from_s + this.to_s) / 2);
    this.from_s = fixed_s - ((fixed_s - this.from_s) / span_s) * wanted_s;
    this.to_s = this.from_s + wanted_s;
    this.moved = true;
    this.soon();
  }

  pan(by_s) {
    this.from_s += by_s;
    this.to_s += by_s;
    this.moved = true;
    this.soon();
  }

  get width() {
    return this.scroller.clientWidth - GUTTER;
  }
  seconds(pixels) {
    return (pixels / this.width) * (this.to_s - this.from_s);
  }
  time(x) {
    return this.from_s + this.seconds(x - GUTTER);
  }

  /** The bar under the pointer. */
  at(event) {
    if (event.offsetX < GUTTER || event.offsetY < AXIS) return null;
    const y = event.offsetY - AXIS + this.scroller.scrollTop;
    const [row] = between(this.plan.rows, y, y + 1);
    if (!row) return null;
    const lane = Math.floor((y - row.top - 3) / LANE);
    const near_s = this.seconds(3);
    const at_s = this.time(event.offsetX) + this.now_s;
    return (
      row.bars.findLast(
        (bar) => bar.lane === lane && begins(bar.lease) - near_s <= at_s && at_s <= ends(bar.lease) + near_s,
      ) || null
    );
  }

  point(event) {
    if (this.drag) {
      const by_s = this.seconds(event.clientX - this.drag.x);
      this.drag.moved ||= Math.abs(event.clientX - this.drag.x) > 3;
      if (this.drag.moved) {
        this.from_s = this.drag.from_s - by_s;
        this.to_s = this.drag.to_s - by_s;
        this.moved = true;
        this.soon();
      }
      return;
    }
    const bar = this.at(event);
    this.tip.hidden = !bar;
    if (!bar) return;
    say(this.tip, inWords(bar.lease, this.now_s));
    this.tip.style.setProperty(
      "left",
      `${Math.min(event.offsetX + 12, Math.max(0, this.scroller.clientWidth - 300))}px`,
    );
    this.tip.style.setProperty("top", `${event.offsetY + 16}px`);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (moves[event.key]) this.go(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Escape") this.choose(null);
    else return;
    event.preventDefault();
  }

  go(rows, places) {
    const { byId, rows: all } = this.plan;
    const bar = byId.get(this.chosen);
    if (!bar) {
      const first =
        between(all, this.scroller.scrollTop, Infinity).find((row) => row.bars.length) ||
        all.find((row) => row.bars.length);
      return this.choose(first?.bars.at(-1).lease.id ?? null);
    }
    let next = bar.row.bars[bar.place + places];
    if (rows) {
      let node = bar.row.node + rows;
      while (all[node] && !all[node].bars.length) node += rows;
      const found = all[node]?.bars || [];
      next = found.findLast((one) => begins(one.lease) <= begins(bar.lease)) || found[0];
    }
    if (next) this.choose(next.lease.id);
  }

  /** Marks a lease, brings it in sight and says what it is; null lets go. */
  choose(id) {
    this.chosen = id;
    const bar = this.plan.byId.get(id);
    say(this.readout, bar ? inWords(bar.lease, this.now_s) : "");
    if (bar) {
      const box = this.scroller;
      const room = box.clientHeight - AXIS;
      if (bar.row.top < box.scrollTop) box.scrollTop = bar.row.top;
      else if (bar.row.top + bar.row.height > box.scrollTop + room)
        box.scrollTop = bar.row.top + bar.row.height - room;
      const began_s = begins(bar.lease) - this.now_s;
      const ended_s = Math.min(ends(bar.lease) - this.now_s, began_s + (this.to_s - this.from_s));
      if (ended_s < this.from_s || began_s > this.to_s)
        this.pan((began_s + ended_s) / 2 - (this.from_s + this.to_s) / 2);
    }
    this.soon();
  }

  soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { scroller, canvas, plan } = this;
    if (!scroller.isConnected) return;
    this.spacer.style.setProperty("height", `${plan.height + AXIS}px`);
    const height = scroller.clientHeight;
    const rows = between(plan.rows, scroller.scrollTop, scroller.scrollTop + height - AXIS);
    const window = { from_s: this.from_s, to_s: this.to_s, now_s: this.now_s, top: scroller.scrollTop };
    canvas.dataset.barsDrawn = this.painter.paint(rows, window, scroller.clientWidth, height, this.chosen);
    canvas.dataset.rowsDrawn = rows.length;
  }
}
