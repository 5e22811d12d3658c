// Calls of the sandbox, and the curl lines that do the same.

// The token comes behind the # of the address, which no server and no log sees; this tab keeps it, the address does not.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname);
}
const SECONDS = 4;
const NO_TOKEN =
  "This page requires the API token. Open the address that './dev status' or 'sandbox serve' prints.";

/**
 * Call the sandbox.
 * @param {{method: string, path: string, body?: object}} call path from the sandbox's root, such as /v1/servers
 * @returns {Promise<object>} its answer
 * @throws {Error} with the reason, in words
 */
export async function send({ method, path, body }) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("token") ?? ""}` };
  let answer, said;
  try {
    answer = await fetch(path, {
      method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(SECONDS * 1000),
    });
    said = await answer.json();
  } catch {
    throw new Error("the sandbox doesn't respond");
  }
  if (answer.status === 401) throw new Error(NO_TOKEN);
  if (!answer.ok) throw new Error(said.error?.message ?? `the sandbox responded with status ${answer.status}`);
  return said;
}

/** The command line that makes a call; the token stays in the shell's variable. */
export function curl({ method, path, body }) {
  const words = ["curl", "-sS", "-X", method, "-H", '"Authorization: Bearer $HCLOUD_TOKEN"'];
  if (body) words.push("-d", quoted(JSON.stringify(body)));
  return [...words, quoted(location.origin + path)].join(" ");
}

const quoted = word => `'${word.replaceAll("'", `'\\''`)}'`;
