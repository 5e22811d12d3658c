// The picture of the networks: load balancers on the left, servers on the right, a line for each target.

import { mood, sign, text } from "./rows.js";

const LINE = 18, PADDING = 9, GAP = 12, MOST = 340;
const MOST_TARGETS = 120;  // more lines than that hide those that matter
const LETTERS = { small: 7.1, name: 8.4 }, LETTER = 7.4;  // pixels that a letter takes, by kind of line

/** Name and health of each target of a load balancer: [{server, ip, status}], one for each. */
export function targetsOf(balancer) {
  return balancer.targets.flatMap(target => target.type === "label_selector" ? target.targets : [target]).map(one => ({
    server: one.server?.id,
    ip: one.ip?.ip,
    private: one.use_private_ip ?? false,
    status: worst(one.health_status.map(health => health.status)),
  }));
}

const worst = statuses =>
  statuses.find(status => mood(status) === "bad") ?? statuses.find(status => mood(status) === "busy") ?? "healthy";

/**
 * Draw the networks.
 * @param {object} o the overview
 * @param {number} width of the place, in pixels
 * @returns {string} one SVG for each network, and one for servers without
 */
export function picture(o, width) {
  const places = [...o.networks, null];
  const drawn = places.map(network => draw(o, network, Math.max(360, Math.min(width, 1100)))).filter(Boolean);
  return drawn.join("") || '<p class="dim">no networks or servers yet</p>';
}

function draw(o, network, width) {
  const inside = list => list.some(place => place.network === network?.id);
  const servers = o.servers.filter(s => network ? inside(s.private) : !s.private.length);
  const ids = new Set(servers.map(s => s.id));
  const balancers = o.load_balancers.filter(b => network ? inside(b.private_net) ||
    targetsOf(b).some(t => ids.has(t.server)) && !b.private_net.length : !b.private_net.length &&
    !targetsOf(b).some(t => t.server && !ids.has(t.server)) && (ids.size || !o.networks.length));
  if (!network && !servers.length && !balancers.length) return "";
  const box = Math.min(MOST, Math.floor((width - 24) * 0.42)), right = width - 12 - box;
  const left = stack(balancers.map(b => balancerLines(b, network, box)));
  const other = stack(servers.map(s => serverLines(s, network, box)));
  const notes = (network?.subnets ?? []).map(s => `subnet ${s.ip_range}  ${s.network_zone}`);
  const ends = balancers.flatMap(b => targetsOf(b).filter(t => ids.has(t.server)));
  const all = ends.length <= MOST_TARGETS, well = ends.filter(t => mood(t.status) === "good").length;
  if (!all) notes.push(`${well} lines to healthy targets are not drawn`);
  const top = 34 + notes.length * LINE, height = top + Math.max(left.height, other.height, 30) + 10;
  const at = new Map(servers.map((s, i) => [s.id, top + other.places[i] + other.heights[i] / 2]));
  const lines = balancers.flatMap((b, i) => targetsOf(b).filter(t => at.has(t.server) && (all || mood(t.status) !== "good")).map(t => {
    const y = top + left.places[i] + left.heights[i] / 2, end = at.get(t.server), half = (right - 12 - box) / 2;
    const way = `M${12 + box},${y} C${12 + box + half},${y} ${right - half},${end} ${right},${end}`;
    const label = `${b.title} to ${t.private ? "the private" : "the public"} address: ${t.status}`;
    return `<path class="${mood(t.status)}" d="${way}"><title>${text(label)}</title></path>`;
  }));
  const boxes = (items, stacked, x, describe) => items.map((item, i) =>
    boxOf(x, top + stacked.places[i], box, stacked.heights[i], describe(item, network, box)));
  const name = network ? `${network.name}  ${network.ip_range}` : "Not in a network";
  const summary = `${name}: ${balancers.length} load balancers, ${servers.length} servers; the tables below list the same objects`;
  return `<svg role="img" aria-label="${text(summary)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
    <rect class="net" x="1" y="10" width="${width - 2}" height="${height - 12}" rx="8"/>
    <text x="14" y="28">${text(fit(name, width - 28, 7))}</text>${notes.map((said, i) =>
      `<text class="small" x="14" y="${28 + (i + 1) * LINE}">${text(fit(said, width - 28, LETTERS.small))}</text>`).join("")}${lines.join("")}
    ${boxes(balancers, left, 12, balancerLines).join("")}${boxes(servers, other, right, serverLines).join("")}</svg>`;
}

function balancerLines(b, network, box) {
  const targets = targetsOf(b), good = targets.filter(t => mood(t.status) === "good").length;
  const status = good === targets.length && good ? "healthy" : targets.some(t => mood(t.status) === "bad") || !good ? "unhealthy" : "unknown";
  const inside = b.private_net.filter(p => p.network === network?.id).map(p => p.ip);
  const outside = b.public_net.enabled ? [b.public_net.ipv4.ip] : [];
  return [
    { kind: "name", said: b.title },
    { kind: mood(status), said: `${sign(status)} ${good} of ${targets.length} targets` },
    ...below([...outside, ...inside], box),
    ...below(b.services.map(s => `${s.protocol} ${s.listen_port}→${s.destination_port}`), box),
  ].filter(line => line.said);
}

function serverLines(s, network, box) {
  const inside = s.private.filter(p => p.network === network?.id).map(p => p.ip);
  const ranges = (network?.routes ?? []).filter(r => inside.includes(r.gateway)).map(r => r.destination);
  return [
    { kind: "name", said: s.name },
    { kind: mood(s.status), said: `${sign(s.status)} ${s.status}` },
    ...below([s.ipv4, ...inside].filter(Boolean), box),
    ...below(ranges.map(range => `→ ${range}`), box),
  ].filter(line => line.said);
}

/** In one line where there is room, else one below the other: an address is of no use when half of it is missing. */
function below(list, box) {
  const together = list.join("  ");
  return (together.length * LETTERS.small < box - 20 ? [together] : list).map(said => ({ kind: "small", said }));
}

function stack(items) {
  const heights = items.map(lines => lines.length * LINE + 2 * PADDING - 4);
  const places = heights.map((_, i) => heights.slice(0, i).reduce((sum, height) => sum + height + GAP, 0));
  return { heights, places, height: heights.reduce((sum, height) => sum + height + GAP, 0) };
}

function boxOf(x, y, width, height, lines) {
  const texts = lines.map((line, i) => {
    const room = fit(line.said, width - 20, LETTERS[line.kind] ?? LETTER);
    return `<g><title>${text(line.said)}</title>` +
      `<text class="${line.kind}" x="${x + 10}" y="${y + PADDING + 11 + i * LINE}">${text(room)}</text></g>`;
  });
  return `<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>${texts.join("")}`;
}

/** As much of a text as fits; what is left out is missing in its middle, for names differ at their ends. */
function fit(said, width, letter) {
  const most = Math.floor(width / letter);
  if (said.length <= most) return said;
  const end = Math.floor((most - 1) * 0.6);
  return `${said.slice(0, most - 1 - end)}…${said.slice(-end)}`;
}
