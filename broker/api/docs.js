"use strict";

// Renders openapi.json: every call with its parameters, body, answers, and a form to try it.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made[key] = value;
  made.append(...children);
  return made;
}

function resolve(spec, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return schema.$ref.replace("#/", "").split("/").reduce((node, part) => node[part], spec);
}

function typeName(spec, schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf || schema.oneOf) return (schema.anyOf || schema.oneOf).map((one) => typeName(spec, one)).join(" | ");
  if (schema.type === "array") return "list of " + typeName(spec, schema.items);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  return schema.type || "any";
}

function fields(spec, schema) {
  const found = resolve(spec, schema);
  if (!found.properties) return element("p", {}, typeName(spec, schema));
  const table = element("table");
  for (const [name, property] of Object.entries(found.properties)) {
    const needed = (found.required || []).includes(name) ? " (required)" : "";
    table.append(element("tr", {},
      element("td", {}, element("code", {}, name), needed),
      element("td", {}, typeName(spec, property)),
      element("td", {}, property.description || "")));
  }
  return element("div", {}, element("p", {}, found.description || ""), table);
}

function jsonSchema(content) {
  const media = Object.values(content || {})[0];
  return media && media.schema;
}

function tryIt(verb, path, parameters, example) {
  const inputs = parameters.map((parameter) => {
    const input = element("input", { placeholder: parameter.name });
    return { parameter, input };
  });
  const body = example === undefined ? null : element("textarea", { value: example });
  const output = element("pre");
  const button = element("button", { type: "button" }, "Send");
  button.onclick = async () => {
    let target = path;
    const query = new URLSearchParams();
    const headers = {};
    const key = document.getElementById("key").value;
    if (key) headers.Authorization = "Bearer " + key;
    for (const { parameter, input } of inputs) {
      if (!input.value) continue;
      if (parameter.in === "path") {
        target = target.replace(`{${parameter.name}}`, input.value.split("/").map(encodeURIComponent).join("/"));
      } else if (parameter.in === "header") headers[parameter.name] = input.value;
      else query.set(parameter.name, input.value);
    }
    if (body) headers["Content-Type"] = "application/json";
    if (query.size) target += "?" + query;
    try {
      const response = await fetch(target, { method: verb.toUpperCase(), headers, body: body && body.value });
      output.textContent = `${response.status} ${response.statusText}\n`;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) output.textContent += part.value;
    } catch (error) {
      output.textContent = String(error);
    }
  };
  return element("div", {}, ...inputs.map(({ input }) => input), ...(body ? [body] : []), button, output);
}

function call(spec, path, verb, operation) {
  const parameters = operation.parameters || [];
  const inside = element("div", {}, element("p", {}, operation.description || ""));
  if (parameters.length) {
    const table = element("table");
    for (const one of parameters) {
      table.append(element("tr", {}, element("td", {}, element("code", {}, one.name), ` (${one.in})`),
        element("td", {}, typeName(spec, one.schema)), element("td", {}, one.description || "")));
    }
    inside.append(element("h4", {}, "Parameters"), table);
  }
  const bodySchema = operation.requestBody && jsonSchema(operation.requestBody.content);
  let example;
  if (bodySchema) {
    const media = Object.values(operation.requestBody.content)[0];
    example = media.example ? JSON.stringify(media.example, null, 2) : "{}";
    const shown = bodySchema.anyOf ? bodySchema.anyOf[0] : bodySchema;
    inside.append(element("h4", {}, "Body: " + typeName(spec, bodySchema)), fields(spec, shown));
  }
  const answers = element("table");
  for (const [status, response] of Object.entries(operation.responses || {})) {
    answers.append(element("tr", {}, element("td", {}, status), element("td", {}, response.description || ""),
      element("td", {}, typeName(spec, jsonSchema(response.content)))));
  }
  inside.append(element("h4", {}, "Answers"), answers, element("h4", {}, "Try it"),
    tryIt(verb, path, parameters, example));
  return element("details", {},
    element("summary", {}, element("span", { className: "verb" }, verb.toUpperCase()), element("code", {}, path),
      " " + (operation.summary || "")), inside);
}

async function main() {
  const spec = await (await fetch("openapi.json")).json();
  document.getElementById("version").textContent = spec.info.version;
  document.getElementById("about").textContent = spec.info.description || "";
  const calls = document.getElementById("calls");
  calls.replaceChildren();
  for (const [path, verbs] of Object.entries(spec.paths)) {
    for (const [verb, operation] of Object.entries(verbs)) calls.append(call(spec, path, verb, operation));
  }
  calls.append(element("h2", {}, "Values"));
  for (const [name, schema] of Object.entries(spec.components.schemas)) {
    calls.append(element("details", {}, element("summary", {}, element("code", {}, name)), fields(spec, schema)));
  }
}

main();
