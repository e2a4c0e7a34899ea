// Where the leases of a cloud lie on its timeline: a row a node, a lane for each that overlaps another.

export const LANE = 9;
const GAP = 8;

/** When a lease began, and when it ended or is to end; a lease without an end lasts on. */
export const begins = (lease) => lease.starts_at_s;
export const ends = (lease) => lease.ended_at_s ?? lease.evict_at_s ?? lease.ends_at_s ?? Infinity;

/** Sorts leases into rows. nodes: cores of each node. Gives {rows, height, byId}; positions are pixels. */
export function layOut(leases, nodes) {
  const rows = nodes.map((cores, node) => ({ node, cores, bars: [], lanes: 1 }));
  const byId = new Map();
  for (const lease of [...leases].sort((one, other) => begins(one) - begins(other) || one.number - other.number)) {
    const row = rows[lease.node];
    if (!row) continue;
    const free = (row.free ||= []);
    let lane = free.findIndex((until) => until <= begins(lease));
    if (lane < 0) lane = free.length;
    free[lane] = ends(lease);
    const bar = { lease, lane, row, place: row.bars.length };
    row.bars.push(bar);
    byId.set(lease.id, bar);
    row.lanes = free.length;
  }
  let top = 0;
  for (const row of rows) {
    row.top = top;
    row.height = row.lanes * LANE + GAP;
    top += row.height;
  }
  return { rows, height: top, byId };
}

/** The rows that lie between two heights, without looking at the others. */
export function between(rows, from, to) {
  let low = 0,
    high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].top + rows[middle].height <= from) low = middle + 1;
    else high = middle;
  }
  const first = low;
  while (low < rows.length && rows[low].top < to) low += 1;
  return rows.slice(first, low);
}
