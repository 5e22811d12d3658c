// The page: asks for everything once a second and shows it; buttons call what a person could call by hand.

import { curl, send } from "./api.js";
import { picture } from "./picture.js";
import { mark, mood, show, text } from "./rows.js";

const element = id => document.getElementById(id);
const code = value => `<code>${text(value)}</code>`;
const lines = parts => parts.filter(Boolean).join("<br>");
const clock = moment => new Date(moment).toLocaleTimeString("en-GB");
let latest = null;

const MOST_TARGETS = 8;  // of one load balancer that are well and shown each

/** Effects of a fault rule: the label in the form, and the fields of the rule. */
const EFFECTS = [
  ["429 rate_limit_exceeded", { code: "rate_limit_exceeded" }],
  ["423 locked", { code: "locked" }],
  ["409 conflict", { code: "conflict" }],
  ["412 resource_unavailable", { code: "resource_unavailable" }],
  ["500 server error", { status: 500, code: "server_error" }],
  ["502 HTML page of a proxy", { status: 502, raw: true }],
  ["response delayed by 5 s", { latency: 5 }],
  ["response lost after the change", { drop: "after" }],
  ["request lost before the change", { drop: "before" }],
  ["list without half of its entries", { truncated_page: true }],
  ["empty list", { empty_listing: true }],
  ["repeated old responses", { stale: true }],
];

const CALLS = {
  power: button => ({ method: "POST", path: `/v1/servers/${button.dataset.id}/actions/${button.dataset.action}`, body: {} }),
  speed: select => ({ method: "PUT", path: "/_sandbox/settings", body: { actions: select.value } }),
  unfault: button => ({ method: "DELETE", path: `/_sandbox/faults/${button.dataset.id}` }),
  fault: () => {
    const form = new FormData(element("fault"));
    const times = form.get("times") ? { times: Number(form.get("times")) } : {};
    const rule = { method: form.get("method"), path: form.get("path"), ...EFFECTS[form.get("effect")][1], ...times };
    return { method: "POST", path: "/_sandbox/faults", body: rule };
  },
};

const button = (call, id, label, name, action = "") =>
  `<button type="button" data-call="${call}" data-id="${id}" data-action="${action}" aria-label="${text(`${label} ${name}`)}">${label}</button>`;

function showHeader(o) {
  element("facts").textContent = `${o.backend} · ${o.total} requests`;
  element("quota").innerHTML = o.quota.map(q => q.limit
    ? `${text(q.project)}: <meter min="0" max="${q.limit}" low="${q.limit / 10}" value="${q.remaining}" ` +
      `aria-label="requests left">${q.remaining}</meter> ${q.remaining} of ${q.limit} requests left`
    : `${text(q.project)}: no request limit`).join(" · ");
  if (document.activeElement !== element("speed")) element("speed").value = o.actions_mode;
  const found = o.problems.map(p => `<li>✗ ${text(p.about)}: ${text(p.text)}</li>`).join("");
  const html = found || '<li class="none">✓ none</li>';
  if (element("problems").written !== html) element("problems").innerHTML = element("problems").written = html;
  document.title = o.problems.length ? `(${o.problems.length}) Sandbox cloud` : "Sandbox cloud";
}

function showPicture(o) {
  const drawn = picture(o, element("picture").clientWidth);
  if (element("picture").written !== drawn) element("picture").innerHTML = element("picture").written = drawn;
}

function showThings(o) {
  const names = Object.fromEntries(o.servers.map(s => [s.id, s.name]));
  const nets = Object.fromEntries(o.networks.map(n => [n.id, n.name]));
  const holder = Object.fromEntries(o.servers.flatMap(s => s.private.map(p => [`${p.network}/${p.ip}`, s.name])));
  const health = list => list.map(h =>
    mark(h.status === "healthy" ? h.listen_port : `${h.listen_port} ${h.status}`, h.status)).join(" ");
  const target = one => `${text(one.type === "ip" ? one.ip.ip : names[one.server.id])} ${health(one.health_status)}`;
  const targets = all => {
    const well = all.filter(one => one.health_status.every(health => mood(health.status) === "good"));
    if (well.length <= MOST_TARGETS) return all.map(target);
    const summary = `<summary>${mark(`${well.length} of ${all.length} healthy`, "ok")}</summary>`;
    return [...all.filter(one => !well.includes(one)).map(target),
      `<details>${summary}${lines(well.map(target))}</details>`];
  };
  show("balancers", ["name", "addresses", "=ports", "targets"], o.load_balancers.map(b => ({ key: b.id, cells: [
    `<b>${text(b.title)}</b><br><span class="dim">${b.title === b.name ? "" : `${text(b.name)}, `}${b.id}, ${text(b.load_balancer_type.name)}, ${text(b.location.name)}</span>`,
    lines([...(b.public_net.enabled ? [code(b.public_net.ipv4.ip), code(b.public_net.ipv6.ip)] : ["no public address"]),
      ...b.private_net.map(p => `${code(p.ip)} <span class="dim">${text(nets[p.network])}</span>`)]),
    lines(b.services.map(s => `${text(s.protocol)} ${s.listen_port} → ${s.destination_port}`)),
    lines([...b.targets.filter(t => t.targets).flatMap(t => [`<i>${text(t.label_selector.selector)}</i>`, ...targets(t.targets)]),
      ...targets(b.targets.filter(t => !t.targets))]) || mark("none", "off"),
  ] })), "no load balancers");
  show("servers", ["name", "=status", "addresses", "=actions"], o.servers.map(s => ({ key: s.id, cells: [
    `<b>${text(s.name)}</b><br><span class="dim">${s.id}, ${text(s.type)}, ${text(s.location)}</span>`,
    mark(s.status) + (s.locked ? "<br>locked" : ""),
    lines([...[s.ipv4, s.ipv6].filter(Boolean).map(code), ...s.private.map(p => `${code(p.ip)} ` +
      (p.status === "ok" ? `<span class="dim">${text(nets[p.network])}</span>` : mark(p.status)))]),
    `<div class="buttons">${s.status === "off" ? button("power", s.id, "Power on", s.name, "poweron")
      : button("power", s.id, "Reboot", s.name, "reboot") + button("power", s.id, "Power off", s.name, "poweroff")}</div>`,
  ] })), "no servers");
  show("networks", ["network", "subnets", "routes"], o.networks.map(n => ({ key: n.id, cells: [
    `<b>${text(n.name)}</b><br>${code(n.ip_range)} <span class="dim">${n.id}</span>`,
    lines(n.subnets.map(s => `${code(s.ip_range)} <span class="dim">${text(s.network_zone)}</span>`)) || "none",
    lines(n.routes.map(r => `${code(`${r.destination} → ${r.gateway}`)} ` +
      (holder[`${n.id}/${r.gateway}`] ? text(holder[`${n.id}/${r.gateway}`]) : mark("no server has this address", "error")))) || "none",
  ] })), "no networks");
  show("certificates", ["name", "domains", "valid until", "=status"], o.certificates.map(c => ({ key: c.id, cells: [
    `<b>${text(c.name)}</b><br><span class="dim">${c.id}, ${text(c.type)}</span>`,
    lines(c.domain_names.map(code)), text((c.not_valid_after ?? "").slice(0, 10)),
    mark(c.status?.issuance ?? "uploaded", c.status?.issuance ?? "ok"),
  ] })), "no certificates");
  show("firewalls", ["name", "rules", "applied to"], o.firewalls.map(f => ({ key: f.id, cells: [
    `<b>${text(f.name)}</b><br><span class="dim">${f.id}</span>`,
    lines(f.rules.map(r => code(`${r.direction} ${r.protocol} ${r.port ?? ""} ${[...r.source_ips, ...r.destination_ips].join(" ")}`))) || "none",
    lines(f.applied_to.map(a => text(a.server ? names[a.server.id] ?? a.server.id : a.label_selector.selector))) || "nothing",
  ] })), "no firewalls");
  show("volumes", ["name", "=size", "server", "=status"], o.volumes.map(v => ({ key: v.id, cells: [
    `<b>${text(v.name)}</b><br><span class="dim">${v.id}, ${text(v.location.name)}</span>`,
    `${v.size} GB`, v.server ? text(names[v.server] ?? v.server) : "none", mark(v.status, v.status === "available" ? "ok" : "starting"),
  ] })), "no volumes");
  show("floating_ips", ["name", "address", "server"], o.floating_ips.map(f => ({ key: f.id, cells: [
    `<b>${text(f.name)}</b><br><span class="dim">${f.id}, ${text(f.home_location.name)}</span>`,
    code(f.ip), f.server ? text(names[f.server] ?? f.server) : "none",
  ] })), "no floating IPs");
  show("images", ["description", "=size", "created from", "=status"], o.images.map(i => ({ key: i.id, cells: [
    `<b>${text(i.description)}</b><br><span class="dim">${i.id}, ${text(i.type)}</span>`,
    i.image_size === null ? "" : `${i.image_size} GB`, text(i.created_from.name),
    mark(i.status, i.status === "available" ? "ok" : "starting"),
  ] })), "no images");
}

function showTraffic(o) {
  show("faults", ["=ID", "requests", "effect", "=applied to", "=actions"], o.faults.map(f => ({ key: f.id, cells: [
    f.id, code(f.command ? `action ${f.command}` : `${f.method} ${f.path}`), text(effectOf(f)),
    `${f.hits} of ${f.seen}`, button("unfault", f.id, "Remove", `fault rule ${f.id}`),
  ] })), "no fault rules");
  show("actions", ["=started", "command", "resources", "status"], o.actions.map(a => ({ key: a.id, cells: [
    clock(a.started), text(a.command), a.resources.map(r => `${text(r.type)} ${r.id}`).join(", "),
    mark(a.status === "running" ? `${a.progress} %` : a.status, a.status === "running" ? "starting" : a.status) +
      (a.error ? ` ${text(a.error.message)}` : ""),
  ] })), "no actions");
  show("counts", ["operation", "=requests"], Object.entries(o.counts).map(([operation, number]) => ({
    key: operation, cells: [text(operation), number] })), "no requests yet");
  if (!element("pause").checked) showRequests(o.requests);
  const paths = Object.keys(o.counts).map(name => name.split(" ")[1]).filter(Boolean);
  const options = [...new Set(paths)].sort().map(path => `<option>${text(path)}</option>`).join("");
  if (element("paths").written !== options) element("paths").innerHTML = element("paths").written = options;
}

function showRequests(requests) {
  const wanted = element("filter").value.trim().toLowerCase();
  const fits = r => !wanted || [r.operation, r.path, r.query, r.status, r.code, r.user_agent, r.project]
    .some(value => String(value).toLowerCase().includes(wanted));
  show("requests", ["=time", "=response", "request", "=ms", "client"], requests.filter(fits).map(r => ({
    key: r.correlation_id, cells: [
      clock(r.at * 1000), mark(r.status ? `${r.status} ${r.code}` : "no response", r.status && r.status < 400 ? "ok" : "error"),
      `<details><summary>${text(r.method)} ${code(r.path)}</summary><dl>${[["operation", r.operation], ["query", r.query],
        ["project", r.project], ["client", r.user_agent], ["correlation ID", r.correlation_id]]
        .map(([name, value]) => `<dt>${name}</dt><dd>${code(value || "—")}</dd>`).join("")}</dl></details>`,
      (r.seconds * 1000).toFixed(1), `<span class="dim">${text(r.user_agent.split(" ")[0])}</span>`,
    ] })), wanted ? "no request matches the filter" : "no requests yet");
}

/** What a rule does, in words: the fields that it sets. */
function effectOf(rule) {
  const quiet = new Set(["id", "method", "path", "command", "seen", "hits", "message", "seed"]);
  const said = Object.entries(rule).filter(([name, value]) => !quiet.has(name) && value &&
    !(name === "probability" && value === 1)).map(([name, value]) => value === true ? name : `${name} ${value}`);
  return said.join(", ") || "error";
}

function render() {
  if (!latest) return;
  showHeader(latest);
  showPicture(latest);
  showThings(latest);
  showTraffic(latest);
}

async function refresh() {
  let problem = "";
  try {
    latest = await send({ method: "GET", path: "/_sandbox/overview" });
    render();
  } catch (error) {
    console.warn(error);
    problem = error.message;
  }
  document.body.classList.toggle("closed", !latest);
  element("stale").textContent = problem;
}

async function poll() {
  await refresh();
  setTimeout(poll, document.hidden ? 5000 : 1000);
}

async function run(control) {
  const call = CALLS[control.dataset.call](control);
  element("curl").textContent = curl(call);
  try {
    await send(call);
    element("said").textContent = `✓ done at ${clock(Date.now())}`;
  } catch (error) {
    element("said").textContent = `✗ ${error.message}`;
  }
  await refresh();
}

const callOf = event => event.target.closest?.("[data-call]");
document.addEventListener("click", event => {
  const control = callOf(event);
  if (control?.type === "button") run(control);
});
element("speed").addEventListener("change", event => run(event.target));
element("fault").addEventListener("submit", event => {
  event.preventDefault();
  run(event.submitter ?? event.target.querySelector("[data-call]"));
});
for (const kind of ["focusin", "mouseover", "input"]) {
  document.addEventListener(kind, event => {
    const control = event.target.closest?.("#fault")?.querySelector("[data-call]") ?? callOf(event);
    if (control) element("curl").textContent = curl(CALLS[control.dataset.call](control));
  });
}
element("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(element("curl").textContent);
  element("said").textContent = "✓ copied";
});
element("filter").addEventListener("input", () => latest && showRequests(latest.requests));
element("fault").elements.effect.innerHTML =
  EFFECTS.map(([name], place) => `<option value="${place}">${text(name)}</option>`).join("");
addEventListener("resize", () => latest && showPicture(latest));
addEventListener("hashchange", () => location.reload());
poll();
