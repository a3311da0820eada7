//! The routes described for programs, as OpenAPI 3.1: the schemas come from the types that are read and written.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// What is said of one route.
pub struct Description {
    pub path: &'static str,
    pub about: &'static str,
    request: Option<fn(&mut SchemaGenerator) -> Schema>,
    answer: fn(&mut SchemaGenerator) -> Schema,
}

impl Description {
    pub fn get<Answer: JsonSchema>(path: &'static str, about: &'static str) -> Self {
        Description { path, about, request: None, answer: SchemaGenerator::subschema_for::<Answer> }
    }

    pub fn post<Request: JsonSchema, Answer: JsonSchema>(path: &'static str, about: &'static str) -> Self {
        let request: fn(&mut SchemaGenerator) -> Schema = SchemaGenerator::subschema_for::<Request>;
        Description { request: Some(request), ..Self::get::<Answer>(path, about) }
    }
}

/// The description of all routes.
pub fn document<'a>(routes: impl Iterator<Item = &'a Description>) -> String {
    let settings = SchemaSettings::draft2020_12();
    let mut schemas =
        settings.with(|own| own.definitions_path = "/components/schemas".into()).into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for Description { path, about, request, answer } in routes {
        let mut operation = json!({
            "summary": about,
            "responses": {
                "200": {"description": "the answer", "content": content(answer(&mut schemas))},
                "default": {
                    "description": "why there is none",
                    "content": content(json!({"$ref": "#/components/schemas/Refusal"})),
                },
            },
        });
        if let Some(request) = request {
            operation["requestBody"] = json!({"required": true, "content": content(request(&mut schemas))});
        }
        let method = if request.is_some() { "post" } else { "get" };
        let entry = paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}));
        entry[method] = operation;
    }
    let mut definitions = schemas.take_definitions(true);
    let text = json!({"type": "string"});
    definitions.insert(
        "Refusal".into(),
        json!({"type": "object", "properties": {"error": text, "error_type": text}, "required": ["error"]}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {"title": "roformer serve", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": definitions},
    })
    .to_string()
}

fn content(schema: impl serde::Serialize) -> Value {
    json!({"application/json": {"schema": schema}})
}
