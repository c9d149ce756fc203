// Every version that lies beside this one, as versions.js of the site lists them, and on pages of an older one a word of it.
(() => {
  const list = document.getElementById("versions");
  const { root, version } = list.dataset;
  const versions = window.versions || [version];
  const start = (one) => `${root || "./"}../${one}/index.html`;
  list.replaceChildren(...versions.map((one) => new Option(one, one, one === version, one === version)));
  list.addEventListener("change", () => {
    window.location.href = start(list.value);
  });
  document.addEventListener("DOMContentLoaded", () => {
    if (versions[0] === version) return;
    const newest = Object.assign(document.createElement("a"), { href: start(versions[0]), textContent: versions[0] });
    const note = Object.assign(document.createElement("p"), { className: "older-version" });
    note.append(`These pages are of version ${version}. The newest is `, newest, ".");
    document.querySelector("article").prepend(note);
  });
})();
