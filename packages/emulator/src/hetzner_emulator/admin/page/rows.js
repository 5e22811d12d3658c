// Tables whose rows stay where they are: a row is written again only when it has changed, so nothing that a person
// points at, selects or has opened goes away under their hand.

/** Text as HTML: whatever the cloud's users call their things is shown, never run. */
export const text = value => String(value ?? "").replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

const GOOD = new Set(["running", "success", "healthy", "completed", "ok", "applied"]);
const BAD = new Set(["off", "error", "unhealthy", "failed"]);

/** How a status is to be taken: "good", "bad" or "busy". */
export const mood = status => GOOD.has(status) ? "good" : BAD.has(status) ? "bad" : "busy";
const SIGNS = { good: "✓", bad: "✗", busy: "…" };

/** A status with a sign, so that color never tells alone. */
export const mark = (value, status = value) =>
  `<span class="${mood(status)}">${SIGNS[mood(status)]}\u00a0${text(value)}</span>`;

/** The sign of a status. */
export const sign = status => SIGNS[mood(status)];

/**
 * Show rows in a table.
 * @param {string} id of the table
 * @param {Array<string>} columns their names; one that begins with "=" is as narrow as its content
 * @param {Array<{key: *, cells: Array<string>}>} rows cells are HTML
 * @param {string} none said where there are no rows
 */
export function show(id, columns, rows, none) {
  const table = document.getElementById(id);
  const kept = new Map([...table.querySelectorAll("tr[data-key]")].map(row => [row.dataset.key, row]));
  const names = columns.map(name => name.replace(/^=/, ""));
  const short = columns.map(name => name.startsWith("=") ? ' class="short"' : "");
  if (!table.tBodies.length) table.innerHTML = "<tbody></tbody>";
  const body = table.tBodies[0];
  const wanted = rows.length ? rows : [{ key: "none", cells: [`<span class="dim">${text(none)}</span>`] }];
  if (rows.length && !body.querySelector("tr.head")) {
    body.insertAdjacentHTML("afterbegin",
      `<tr class="head">${names.map((name, i) => `<th scope="col"${short[i]}>${text(name)}</th>`).join("")}</tr>`);
  } else if (!rows.length) body.querySelector("tr.head")?.remove();
  let before = body.querySelector("tr.head");
  for (const { key, cells } of wanted) {
    let row = kept.get(String(key));
    kept.delete(String(key));
    const html = cells.map((cell, i) => `<td data-name="${text(names[i])}"${short[i] ?? ""}><div>${cell}</div></td>`).join("");
    if (!row) {
      row = document.createElement("tr");
      row.dataset.key = key;
    }
    if (row.written !== html) {
      const open = row.querySelector("details")?.open;
      if (row.written !== undefined) row.classList.add("changed");
      row.innerHTML = row.written = html;
      if (open) row.querySelector("details")?.setAttribute("open", "");
    } else row.classList.remove("changed");
    const place = before ? before.nextSibling : body.firstChild;
    if (place !== row) body.insertBefore(row, place);
    before = row;
  }
  for (const row of kept.values()) row.remove();
}
