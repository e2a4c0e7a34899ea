// The canvas of the timeline: axis, stripes, bars. It is given the rows that are in sight, and draws no others.

import { LANE, begins, ends } from "./lanes.js";
import { cores, duration } from "./words.js";

export const AXIS = 26;
export const GUTTER = 78;

const STEPS_S = [
  1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000, 315360000,
];
const COLOURS = ["running", "completed", "evicted", "cancelled", "ink", "line", "muted", "accent", "stripe"];
const OVER = { evicted: "evicted", failed: "evicted", completed: "completed", cancelled: "cancelled" };

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  /** The theme has changed. */
  undress() {
    this.colours = null;
  }

  /**
   * Draws rows. window: {from_s, to_s}, the time in sight as seen from now_s; top: how far it is scrolled down.
   * Gives the number of bars that were drawn.
   */
  paint(rows, window, width, height, chosen) {
    Object.assign(this, window, { width: width - GUTTER, chosen });
    this.size(width, height);
    this.colours ||= this.dressing();
    const { pen } = this;
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const at = (row) => AXIS + row.top - window.top;
    for (const row of rows) this.stripe(pen, row, at(row), width);
    this.ticks(pen, height);
    let bars = 0;
    for (const row of rows) bars += this.row(pen, row, at(row), width);
    this.axis(pen, width);
    return bars;
  }

  size(width, height) {
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.setProperty("width", `${width}px`);
      canvas.style.setProperty("height", `${height}px`);
    }
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  x(at_s) {
    return GUTTER + ((at_s - this.now_s - this.from_s) / (this.to_s - this.from_s)) * this.width;
  }

  /** The colours of the theme, as the canvas understands them. */
  dressing() {
    const found = COLOURS.map((name) => {
      this.canvas.style.setProperty("color", `var(--${name})`);
      return [name, getComputedStyle(this.canvas).color];
    });
    this.canvas.style.removeProperty("color");
    return Object.fromEntries(found);
  }

  marks() {
    const wanted_s = (this.to_s - this.from_s) / Math.max(this.width / 84, 3);
    const step_s = STEPS_S.find((one) => one >= wanted_s) || STEPS_S.at(-1);
    const found = [];
    for (let at_s = Math.ceil(this.from_s / step_s) * step_s; at_s <= this.to_s && found.length < 100; at_s += step_s)
      found.push(at_s);
    return found;
  }

  stripe(pen, row, y, width) {
    if (row.node % 2 === 0) return;
    pen.fillStyle = this.colours.stripe;
    pen.fillRect(0, y, width, row.height);
  }

  ticks(pen, height) {
    for (const at_s of this.marks()) {
      const x = Math.round(this.x(at_s + this.now_s));
      if (x < GUTTER) continue;
      pen.fillStyle = at_s === 0 ? this.colours.accent : this.colours.line;
      pen.fillRect(x, AXIS, at_s === 0 ? 2 : 1, height);
    }
  }

  axis(pen, width) {
    pen.clearRect(0, 0, width, AXIS);
    pen.textAlign = "center";
    for (const at_s of this.marks()) {
      const x = this.x(at_s + this.now_s);
      if (x < GUTTER - 20 || x > width - 20) continue;
      pen.fillStyle = at_s === 0 ? this.colours.accent : this.colours.muted;
      pen.fillText(at_s === 0 ? "now" : (at_s > 0 ? "+" : "") + duration(at_s), x, AXIS / 2);
    }
    pen.textAlign = "left";
    pen.fillStyle = this.colours.line;
    pen.fillRect(0, AXIS - 1, width, 1);
  }

  row(pen, row, y, width) {
    let drawn = 0;
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, y, width - GUTTER, row.height);
    pen.clip();
    for (const bar of row.bars) {
      const left = this.x(begins(bar.lease)),
        right = Math.min(this.x(ends(bar.lease)), width + 9);
      if (left > width || right < GUTTER) continue;
      this.bar(pen, bar, Math.max(left, GUTTER - 9), Math.max(right, left + 2), y + 4 + bar.lane * LANE);
      drawn += 1;
    }
    pen.restore();
    pen.fillStyle = this.colours.ink;
    pen.fillText(`node ${row.node}`, 6, y + Math.min(row.height / 2, 12));
    if (row.height >= 34) {
      pen.fillStyle = this.colours.muted;
      pen.fillText(cores(row.cores), 6, y + 28);
    }
    return drawn;
  }

  bar(pen, { lease }, left, right, y) {
    const high = LANE - 2;
    const over = lease.ended_at_s !== null;
    const colour = this.colours[OVER[lease.state] || "running"];
    pen.fillStyle = pen.strokeStyle = colour;
    pen.lineWidth = 1;
    const lived = over ? right : Math.min(Math.max(this.x(this.now_s), left), right);
    if (lease.state === "cancelled") pen.strokeRect(left + 0.5, y + 0.5, Math.max(right - left - 1, 1), high - 1);
    else pen.fillRect(left, y, lived - left, high);
    if (!over && right > lived) {
      pen.globalAlpha = 0.28;
      pen.fillRect(lived, y, right - lived, high);
      pen.globalAlpha = 1;
      if (lease.evict_at_s !== null) pen.fillRect(right - 3, y, 3, high); // it was told to leave by then
    }
    if (lease.state === "evicted" || lease.state === "failed") this.cross(pen, right, y + high / 2);
    if (lease.id === this.chosen) {
      pen.strokeStyle = this.colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left - 1, y - 1, right - left + 2, high + 2);
    }
  }

  cross(pen, x, y) {
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - 3, y - 3);
    pen.lineTo(x + 3, y + 3);
    pen.moveTo(x - 3, y + 3);
    pen.lineTo(x + 3, y - 3);
    pen.stroke();
  }
}
