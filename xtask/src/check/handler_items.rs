//! What the macros `handler!` and `parts!` define, as far as the rules look at it: structs with
//! their fields, and methods that make handlers.

use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Field, Ident, Item, ItemMod, ItemType, Token, braced, parse_str};

/// The items of a macro call; none if it is another macro, or its definition.
pub fn items(call: &syn::ItemMacro) -> Vec<Item> {
    let name = call.mac.path.segments.last().map(|s| s.ident.to_string());
    let tokens = call.mac.tokens.clone();
    let items = match name.as_deref() {
        Some("handler") => handler.parse2(tokens),
        Some("parts") => parts.parse2(tokens),
        _ => return Vec::new(),
    };
    items.unwrap_or_default()
}

/// The name behind attributes and the visibility.
fn defined(input: ParseStream<'_>) -> syn::Result<Ident> {
    input.call(syn::Attribute::parse_outer)?;
    input.parse::<syn::Visibility>()?;
    input.parse()
}

fn handler(input: ParseStream<'_>) -> syn::Result<Vec<Item>> {
    let name = defined(input)?;
    let mut text = String::new();
    if input.peek(Ident) {
        input.parse::<Ident>()?;
        let parts: Ident = input.parse()?;
        text = format!("impl {name}<'_> {{ fn of(_: &mut {parts}) -> Self {{}} }}");
    }
    let keys;
    braced!(keys in input);
    let mut fields = String::new();
    while !keys.is_empty() {
        keys.parse::<Ident>()?;
        for key in names(&keys)? {
            fields.push_str(&format!("{key}: &'a keys::{key}, "));
        }
    }
    text.push_str(&format!("struct {name}<'a> {{ {fields} }}"));
    if input.peek(Ident) {
        input.parse::<Ident>()?;
        let below;
        braced!(below in input);
        while !below.is_empty() {
            let (make, _): (Ident, Token![:]) = (below.parse()?, below.parse()?);
            let made: Ident = below.parse()?;
            names(&below)?;
            below.parse::<Token![,]>()?;
            let method = format!("fn {make}(&mut self) -> {made}<'_> {{}}");
            text.push_str(&format!("impl {name}<'_> {{ {method} }}"));
        }
    }
    Ok(parse_str::<syn::File>(&text)?.items)
}

fn names(input: ParseStream<'_>) -> syn::Result<Punctuated<Ident, Token![,]>> {
    let content;
    braced!(content in input);
    content.call(Punctuated::parse_terminated)
}

fn parts(input: ParseStream<'_>) -> syn::Result<Vec<Item>> {
    let name = defined(input)?;
    let has_references = input.peek(Token![<]);
    if has_references {
        input.parse::<syn::Generics>()?;
    }
    let content;
    braced!(content in input);
    let mut fields = Vec::new();
    while !content.is_empty() {
        if has_references {
            content.parse::<Ident>()?;
            let part;
            braced!(part in content);
            fields.extend(part.parse_terminated(Field::parse_named, Token![,])?);
        } else {
            fields.extend(content.parse_terminated(Field::parse_named, Token![,])?);
        }
    }
    let mut keys: ItemMod = parse_str("mod keys { use super::*; }")?;
    for field in &fields {
        let part = field
            .ident
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        let mut key: ItemType = parse_str(&format!("type {part} = ();"))?;
        *key.ty = field.ty.clone();
        if let Some((_, items)) = &mut keys.content {
            items.push(Item::Type(key));
        }
    }
    let mut all: syn::ItemStruct = parse_str(&format!("struct {name} {{}}"))?;
    if let syn::Fields::Named(named) = &mut all.fields {
        named.named.extend(fields);
    }
    Ok(vec![Item::Struct(all), Item::Mod(keys)])
}
