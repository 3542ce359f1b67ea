// Computes the contrast of the colors of services in both themes, and their distance for people with and without color
// blindness.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const STYLE = readFileSync(new URL("../../src/cli/page/assets/style.css", import.meta.url), "utf8");
const COLORS = 12;
/** Contrast that WCAG 2.2 requires of text: the duration is written on the bar, in the color of the panel. */
const MIN_TEXT = 4.5;
/** Contrast that WCAG 2.2 requires of graphics. */
const MIN_GRAPHIC = 3;
/** Minimum distances in Oklab, where 0.02 is about the smallest difference that is seen side by side. */
const MIN_DISTANCE = { usual: 0.075, protanopia: 0.065, deuteranopia: 0.065, tritanopia: 0.045 };
/** Simulations of complete color blindness, for linear RGB (Machado, Oliveira and Fernandes 2009). */
const SIMULATIONS = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const linear = (hex) => {
  const digits = hex.length === 4 ? [...hex.slice(1)].map((digit) => digit + digit) : hex.slice(1).match(/../g);
  return digits.map((pair) => parseInt(pair, 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
};
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const contrast = (a, b) => {
  const [dark, light] = [luminance(linear(a)), luminance(linear(b))].sort((one, other) => one - other);
  return (light + 0.05) / (dark + 0.05);
};

function oklab(hex, simulation) {
  const seen = simulation.map((row) => Math.min(1, Math.max(0, row.reduce((sum, factor, at) => sum + factor * linear(hex)[at], 0))));
  const mix = (matrix, of) => matrix.map((row) => row.reduce((sum, factor, at) => sum + factor * of[at], 0));
  const cones = mix([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]], seen);
  return mix([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]], cones.map(Math.cbrt));
}

for (const [theme, selector] of [["light", ":root{"], ["dark", ':root[data-theme="dark"]{']]) {
  const rules = STYLE.split(selector)[1].split("}")[0];
  const color = (name) => new RegExp(`--${name}:(#[0-9a-f]+)`).exec(rules)[1];
  const hues = Array.from({ length: COLORS }, (_, number) => color(`hue${number}`));

  test(`the colors of services have contrast to the ${theme} theme`, () => {
    for (const hue of hues) {
      assert.ok(contrast(hue, color("panel")) >= MIN_TEXT, `${hue} on the panel: ${contrast(hue, color("panel"))}`);
      for (const back of ["back", "select"]) assert.ok(contrast(hue, color(back)) >= MIN_GRAPHIC, `${hue} on ${back}: ${contrast(hue, color(back))}`);
    }
  });

  for (const [kind, least] of Object.entries(MIN_DISTANCE)) {
    test(`the colors of services in the ${theme} theme differ with ${kind === "usual" ? "usual eyes" : kind}`, () => {
      const seen = hues.map((hue) => oklab(hue, SIMULATIONS[kind]));
      const pairs = seen.flatMap((one, at) => seen.slice(0, at).map((other, before) => [Math.hypot(...one.map((part, axis) => part - other[axis])), hues[at], hues[before]]));
      const [distance, a, b] = pairs.sort((one, other) => one[0] - other[0])[0];
      assert.ok(distance >= least, `${a} and ${b}: ${distance.toFixed(3)}`);
    });
  }
}
