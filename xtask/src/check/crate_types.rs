//! The types of a crate: where their methods are, and which types their fields and methods give.
//!
//! A type is known if it is a struct, an enum or a union of the crate, also behind references,
//! `Box`, `Rc`, `Arc` and a type alias. Types that macros define are not known, except those of
//! `handler_items`, nor is what a container holds.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, ItemId};
use super::source::is_test_only;

/// Pointers that have no methods of their own.
const POINTERS: &[&str] = &["Box", "Rc", "Arc"];

/// Aliases that are followed from one type.
const DEPTH: usize = 8;

/// A function or method.
pub struct Function {
    /// Position of its file among the sources.
    pub file: usize,
    /// The type that a call gives, if it is one of the crate.
    pub gives: Option<ItemId>,
}

/// A block of inherent methods.
#[derive(Clone, Copy)]
pub struct ImplBlock {
    /// Position of its file among the sources.
    pub file: usize,
    /// Its first line.
    pub line: usize,
}

/// A struct, an enum or a union.
#[derive(Default)]
pub struct CrateType {
    /// The fields whose types are known, by name or position.
    fields: BTreeMap<String, ItemId>,
    /// Inherent methods and functions. Blocks for different parameters of the type may define
    /// several of one name.
    methods: BTreeMap<String, Vec<Function>>,
    /// Blocks outside of tests.
    pub blocks: Vec<ImplBlock>,
}

/// Where a type is written.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The module, by its position in the crate.
    pub module: usize,
    /// What `Self` is there.
    pub self_type: Option<&'a ItemId>,
    /// Names of parameters that are in scope, which hide types of the module.
    pub generics: &'a BTreeSet<String>,
}

/// The types and free functions of one crate.
pub struct CrateTypes<'a> {
    /// The crate.
    pub of: &'a Crate<'a>,
    /// By the module and the name there.
    pub types: BTreeMap<ItemId, CrateType>,
    aliases: BTreeMap<ItemId, &'a syn::Type>,
    functions: BTreeMap<ItemId, Function>,
}

impl<'a> CrateTypes<'a> {
    /// Reads the types of a crate.
    pub fn new(of: &'a Crate<'a>) -> Self {
        let mut this = Self {
            of,
            types: BTreeMap::new(),
            aliases: BTreeMap::new(),
            functions: BTreeMap::new(),
        };
        let items = || {
            let all = of.modules.iter().enumerate();
            all.flat_map(|(at, m)| m.content.iter().map(move |item| (at, item)))
        };
        // Fields and methods name types that may stand after them.
        for (module, item) in items() {
            this.add_name(module, item);
        }
        for (module, item) in items() {
            this.add_content(module, item);
        }
        this
    }

    fn add_name(&mut self, module: usize, item: &'a syn::Item) {
        let name = match item {
            syn::Item::Struct(i) => &i.ident,
            syn::Item::Enum(i) => &i.ident,
            syn::Item::Union(i) => &i.ident,
            syn::Item::Type(i) => {
                let id = (module, i.ident.to_string());
                self.aliases.insert(id, &i.ty);
                return;
            }
            _ => return,
        };
        self.types.entry((module, name.to_string())).or_default();
    }

    fn add_content(&mut self, module: usize, item: &'a syn::Item) {
        match item {
            syn::Item::Struct(i) => {
                let id = (module, i.ident.to_string());
                let generics = names_of(&i.generics);
                let place = Place {
                    module,
                    self_type: Some(&id),
                    generics: &generics,
                };
                let mut fields = BTreeMap::new();
                for (at, field) in i.fields.iter().enumerate() {
                    let name = field.ident.as_ref();
                    let name = name.map_or_else(|| at.to_string(), ToString::to_string);
                    fields.extend(self.resolve(place, &field.ty).map(|ty| (name, ty)));
                }
                self.types.entry(id).or_default().fields.extend(fields);
            }
            syn::Item::Fn(f) if !is_test_only(&f.attrs) => {
                let generics = names_of(&f.sig.generics);
                let place = Place {
                    module,
                    self_type: None,
                    generics: &generics,
                };
                let function = self.function(place, &f.sig);
                let id = (module, f.sig.ident.to_string());
                self.functions.insert(id, function);
            }
            syn::Item::Impl(block) if block.trait_.is_none() && !is_test_only(&block.attrs) => {
                self.add_block(module, block);
            }
            _ => {}
        }
    }

    fn add_block(&mut self, module: usize, block: &'a syn::ItemImpl) {
        let Some(id) = self.self_type(module, block) else {
            return;
        };
        let mut methods = Vec::new();
        for item in &block.items {
            let syn::ImplItem::Fn(f) = item else { continue };
            if is_test_only(&f.attrs) {
                continue;
            }
            let mut generics = names_of(&block.generics);
            generics.extend(names_of(&f.sig.generics));
            let place = Place {
                module,
                self_type: Some(&id),
                generics: &generics,
            };
            methods.push((f.sig.ident.to_string(), self.function(place, &f.sig)));
        }
        let file = self.of.modules[module].file;
        let line = block.impl_token.span.start().line;
        let entry = self.types.entry(id).or_default();
        entry.blocks.push(ImplBlock { file, line });
        for (name, method) in methods {
            entry.methods.entry(name).or_default().push(method);
        }
    }

    fn function(&self, place: Place<'_>, signature: &syn::Signature) -> Function {
        let gives = match &signature.output {
            syn::ReturnType::Type(_, ty) if signature.asyncness.is_none() => {
                self.resolve(place, ty)
            }
            _ => None,
        };
        Function {
            file: self.of.modules[place.module].file,
            gives,
        }
    }

    /// The type that a block in `module` is about.
    pub fn self_type(&self, module: usize, block: &syn::ItemImpl) -> Option<ItemId> {
        let generics = names_of(&block.generics);
        let place = Place {
            module,
            self_type: None,
            generics: &generics,
        };
        self.resolve(place, &block.self_ty)
    }

    /// The type of the crate that a written type leads to.
    pub fn resolve(&self, place: Place<'_>, ty: &syn::Type) -> Option<ItemId> {
        match ty {
            syn::Type::Reference(r) => self.resolve(place, &r.elem),
            syn::Type::Paren(p) => self.resolve(place, &p.elem),
            syn::Type::Group(g) => self.resolve(place, &g.elem),
            syn::Type::Path(p) if p.qself.is_none() && p.path.leading_colon.is_none() => {
                self.resolve_path(place, &p.path)
            }
            _ => None,
        }
    }

    /// The same for the path of a struct, an enum or an alias.
    pub fn resolve_path(&self, place: Place<'_>, path: &syn::Path) -> Option<ItemId> {
        let names = names_of_path(path);
        if let Some(ty) = self.named(place, &names) {
            return Some(ty);
        }
        let last = path.segments.last()?;
        let pointer = POINTERS.contains(&last.ident.to_string().as_str());
        match &last.arguments {
            syn::PathArguments::AngleBracketed(list) if pointer && list.args.len() == 1 => {
                match list.args.first()? {
                    syn::GenericArgument::Type(inner) => self.resolve(place, inner),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The type of these names in a path, without arguments.
    pub fn named(&self, place: Place<'_>, names: &[String]) -> Option<ItemId> {
        match names {
            [name] if name == "Self" => place.self_type.cloned(),
            [name] if place.generics.contains(name) => None,
            names => self.follow(self.of.exact_item(place.module, names)?, DEPTH),
        }
    }

    /// The type behind aliases.
    fn follow(&self, id: ItemId, depth: usize) -> Option<ItemId> {
        if self.types.contains_key(&id) {
            return Some(id);
        }
        let syn::Type::Path(p) = self.aliases.get(&id)? else {
            return None;
        };
        let next = self.of.exact_item(id.0, &names_of_path(&p.path))?;
        self.follow(next, depth.checked_sub(1)?)
    }

    /// The type of a field.
    pub fn field(&self, of: &ItemId, name: &str) -> Option<ItemId> {
        self.types.get(of)?.fields.get(name).cloned()
    }

    /// An inherent method or function of a type. None if several files define one of that name.
    pub fn method(&self, of: &ItemId, name: &str) -> Option<&Function> {
        let (first, others) = self.types.get(of)?.methods.get(name)?.split_first()?;
        others.iter().all(|o| o.file == first.file).then_some(first)
    }

    /// The free function or the associated function that a path in code names.
    pub fn function_at(&self, place: Place<'_>, names: &[String]) -> Option<&Function> {
        let (last, before) = names.split_last()?;
        if let Some(ty) = self.named(place, before) {
            return self.method(&ty, last);
        }
        self.functions
            .get(&self.of.exact_item(place.module, names)?)
    }
}

/// Names of the types among generic parameters.
pub fn names_of(generics: &syn::Generics) -> BTreeSet<String> {
    generics
        .type_params()
        .map(|p| p.ident.to_string())
        .collect()
}

/// The names of a path without their arguments.
pub fn names_of_path(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|s| s.ident.to_string()).collect()
}
