//! The modules of a crate, and where its paths lead.
//!
//! A re-export leads to the module that defines the item. Names that macros define are not known.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::source::{Source, is_test_only};

/// Re-exports that are followed from one path.
const DEPTH: usize = 16;

/// A path as it was written, with its line.
type Reference = (Vec<String>, usize);

/// A module, which may be inside another's file.
pub struct Module<'a> {
    parent: Option<usize>,
    /// Position of its file among the sources.
    pub file: usize,
    /// What it holds, in the order of the file.
    pub content: &'a [syn::Item],
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// Imported names, with their paths.
    uses: BTreeMap<String, Vec<String>>,
    /// Imports with `*`.
    globs: Vec<Vec<String>>,
    /// Paths in its code and its imports, without those that it only exports again.
    pub references: Vec<Reference>,
}

/// The modules of one crate; the first is its root.
pub struct Crate<'a> {
    /// The crate's folder, from the workspace's root.
    pub folder: &'a str,
    /// All files of the workspace.
    pub sources: &'a [Source],
    /// Modules that are not for tests only.
    pub modules: Vec<Module<'a>>,
}

/// An item, by the module that defines it and its name there.
pub type ItemId = (usize, String);

/// The target of a path.
enum Target {
    Module(usize),
    /// An item, and how many names of the path come after it.
    Item(ItemId, usize),
}

/// The libraries and programs of the workspace.
pub fn crates(sources: &[Source]) -> Vec<Crate<'_>> {
    let is_root = |s: &Source| {
        let name = s.path.strip_suffix("/src/lib.rs");
        let name = name.or(s.path.strip_suffix("/src/main.rs"));
        name.is_some_and(|n| !n.contains("/tests/"))
    };
    let roots = sources.iter().enumerate().filter(|(_, s)| is_root(s));
    roots.map(|(at, _)| Crate::new(sources, at)).collect()
}

impl<'a> Crate<'a> {
    fn new(sources: &'a [Source], root: usize) -> Self {
        let path = &sources[root].path;
        let (folder, _) = path.rsplit_once("/src/").unwrap_or_default();
        let mut this = Self {
            folder,
            sources,
            modules: Vec::new(),
        };
        let (beside, _) = path.rsplit_once('/').unwrap_or_default();
        this.add(None, root, beside, &sources[root].file.items);
        this
    }

    /// Adds a module and those below it; files of its children lie in `folder`.
    fn add(
        &mut self,
        parent: Option<usize>,
        file: usize,
        folder: &str,
        content: &'a [syn::Item],
    ) -> usize {
        let at = self.modules.len();
        self.modules.push(Module {
            parent,
            file,
            content,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            uses: BTreeMap::new(),
            globs: Vec::new(),
            references: Vec::new(),
        });
        for item in content {
            if let syn::Item::Mod(m) = item {
                self.add_child(at, file, folder, m);
            }
        }
        let mut reader = Reader {
            module: &mut self.modules[at],
        };
        for item in content {
            reader.item(item);
        }
        at
    }

    fn add_child(&mut self, parent: usize, file: usize, folder: &str, m: &'a syn::ItemMod) {
        if is_test_only(&m.attrs) {
            return;
        }
        let below = format!("{folder}/{}", m.ident);
        let child = match &m.content {
            Some((_, items)) => self.add(Some(parent), file, &below, items),
            None => {
                let names = [format!("{below}.rs"), format!("{below}/mod.rs")];
                let found = self.sources.iter().position(|s| names.contains(&s.path));
                let Some(file) = found else { return };
                self.add(Some(parent), file, &below, &self.sources[file].file.items)
            }
        };
        let name = m.ident.to_string();
        self.modules[parent].children.insert(name, child);
    }

    /// The item that a path in `module` leads to, if it ends there or inside the item.
    pub fn item(&self, module: usize, path: &[String]) -> Option<ItemId> {
        match self.resolve(module, path, DEPTH)? {
            Target::Item(item, _) => Some(item),
            Target::Module(_) => None,
        }
    }

    /// The item that a path in `module` names.
    pub fn exact_item(&self, module: usize, path: &[String]) -> Option<ItemId> {
        match self.resolve(module, path, DEPTH)? {
            Target::Item(item, 0) => Some(item),
            _ => None,
        }
    }

    /// Follows a path that was written in `module`.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.modules[module].parent?),
            name => self.lookup(module, name, depth)?,
        };
        while let (Target::Module(at), Some((name, further))) = (&target, rest.split_first()) {
            target = match name.as_str() {
                "super" => Target::Module(self.modules[*at].parent?),
                name => self.lookup(*at, name, depth)?,
            };
            rest = further;
        }
        Some(match target {
            Target::Item(item, inside) => Target::Item(item, inside + rest.len()),
            module => module,
        })
    }

    fn lookup(&self, at: usize, name: &str, depth: usize) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Target::Module(*child));
        }
        if module.items.contains(name) {
            return Some(Target::Item((at, name.to_owned()), 0));
        }
        let depth = depth.checked_sub(1)?;
        if let Some(path) = module.uses.get(name) {
            // `use name::…` of another crate would lead here again.
            let loops = path.len() > 1 && path[0] == name;
            return (!loops).then(|| self.resolve(at, path, depth))?;
        }
        // So would `use name::…::*`.
        let mut others = module.globs.iter().filter(|glob| glob[0] != name);
        let found = |glob: &Vec<String>| match self.resolve(at, glob, depth)? {
            Target::Module(other) if other != at => self.lookup(other, name, depth),
            _ => None,
        };
        others.find_map(found)
    }
}

/// Reads the names and paths of a module, without those of the modules inside it.
struct Reader<'a, 'b> {
    module: &'a mut Module<'b>,
}

impl Reader<'_, '_> {
    fn item(&mut self, item: &syn::Item) {
        use syn::Item;
        let name = match item {
            Item::Const(i) => Some(&i.ident),
            Item::Enum(i) => Some(&i.ident),
            Item::Fn(i) => Some(&i.sig.ident),
            Item::Static(i) => Some(&i.ident),
            Item::Struct(i) => Some(&i.ident),
            Item::Trait(i) => Some(&i.ident),
            Item::TraitAlias(i) => Some(&i.ident),
            Item::Type(i) => Some(&i.ident),
            Item::Union(i) => Some(&i.ident),
            Item::Macro(i) => i.ident.as_ref(),
            _ => None,
        };
        self.module.items.extend(name.map(ToString::to_string));
        self.visit_item(item);
    }

    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree, line: usize, exports: bool) {
        let join = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(p) => return self.tree(&join(&p.ident), &p.tree, line, exports),
            syn::UseTree::Group(g) => {
                let each = |t| self.tree(prefix, t, line, exports);
                return g.items.iter().for_each(each);
            }
            syn::UseTree::Glob(_) => return self.module.globs.push(prefix.to_vec()),
            syn::UseTree::Name(n) if n.ident == "self" => {
                (prefix.to_vec(), prefix.last().cloned().unwrap_or_default())
            }
            syn::UseTree::Name(n) => (join(&n.ident), n.ident.to_string()),
            syn::UseTree::Rename(r) => (join(&r.ident), r.rename.to_string()),
        };
        if !exports {
            self.module.references.push((path.clone(), line));
        }
        self.module.uses.insert(name, path);
    }

    /// Paths among the tokens of a macro call.
    fn tokens(&mut self, tokens: &TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens.clone() {
            match token {
                TokenTree::Punct(p) if p.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(std::mem::take(&mut path), line);
                    }
                    line = name.span().start().line;
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => self.tokens(&group.stream()),
                _ => self.note(std::mem::take(&mut path), line),
            }
            colons = 0;
        }
        self.note(path, line);
    }

    fn note(&mut self, path: Vec<String>, line: usize) {
        if !path.is_empty() {
            self.module.references.push((path, line));
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_, '_> {
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        let exports = !matches!(u.vis, syn::Visibility::Inherited);
        if !is_test_only(&u.attrs) {
            let line = u.use_token.span.start().line;
            self.tree(&[], &u.tree, line, exports);
        }
    }

    fn visit_path(&mut self, p: &'ast syn::Path) {
        let names: Vec<String> = p.segments.iter().map(|s| s.ident.to_string()).collect();
        if let (None, Some(first)) = (p.leading_colon, p.segments.first()) {
            self.note(names, first.ident.span().start().line);
        }
        visit::visit_path(self, p);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        self.tokens(&m.tokens);
        visit::visit_macro(self, m);
    }
}
