// Questions to the server. The token is kept for this tab only, and goes in a header: no cookie.

const KEY = "sluiceway-token";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.error = error ?? { message: this.message };
  }
}

// What no header can hold is no token of ours; the server refuses what is kept in its place.
export const setToken = (token) => sessionStorage.setItem(KEY, /^[\x21-\x7e]+$/.test(token) ? token : "-");

export const hasToken = () => sessionStorage.getItem(KEY) !== null;

export async function ask(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const text = given.length ? `?${new URLSearchParams(given)}` : "";
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let answer;
  try {
    answer = await fetch(`/api/${path}${text}`, { headers, cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refused(0, { message: "the server does not answer: has `sluiceway serve` ended?" });
  }
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, document.error);
  return document;
}

export const jobPath = (id, rest = "") => `jobs/${encodeURIComponent(id)}${rest}`;
