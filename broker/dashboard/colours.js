// Viridis: a scale that grows evenly lighter and is read alike by those who see colours differently.

const VIRIDIS = [
  [68, 1, 84],
  [72, 36, 117],
  [65, 68, 135],
  [53, 95, 141],
  [42, 120, 142],
  [33, 145, 140],
  [34, 168, 132],
  [68, 191, 112],
  [122, 209, 81],
  [189, 223, 38],
  [253, 231, 37],
];

/** A colour for a value between the least and the most, on a logarithmic scale. */
export function shade(value, least, most) {
  const share = most > least ? Math.log(value / least) / Math.log(most / least) : 1;
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[low].map((part, index) => Math.round(part + (place - low) * (VIRIDIS[low + 1][index] - part)));
}

const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);

/** Black or white, whichever is read better on a colour. */
export function ink([red, green, blue]) {
  const luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  return luminance > 0.179 ? "#000" : "#fff";
}

/** Gives an element a background and a text that is read on it. */
export function paint(element, colour) {
  element.style.setProperty("background-color", `rgb(${colour.join(" ")})`);
  element.style.setProperty("color", ink(colour));
}
