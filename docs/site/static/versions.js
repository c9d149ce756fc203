// Every version that lies beside this one, as versions.js of the site lists them.
(() => {
  const list = document.getElementById("versions");
  const { root, version } = list.dataset;
  const options = (window.versions || [version]).map((one) => new Option(one, one, one === version, one === version));
  list.replaceChildren(...options);
  list.addEventListener("change", () => {
    window.location.href = `${root || "./"}../${list.value}/index.html`;
  });
})();
