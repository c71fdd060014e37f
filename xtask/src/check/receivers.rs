//! The types of expressions in the body of a function, where the code says them.
//!
//! Only types of the crate are known, by declared fields and parameters, declared or plainly
//! initialized variables, and what methods and functions give. A name that a pattern binds in
//! another way has no known type, and hides an earlier one.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::crate_types::{CrateTypes, Function, Place, names_of, names_of_path};
use super::modules::ItemId;

/// Where an expression stands.
pub struct Body<'a> {
    types: &'a CrateTypes<'a>,
    /// The module, by its position in the crate.
    module: usize,
    /// What `Self` is.
    self_type: Option<ItemId>,
    generics: BTreeSet<String>,
    /// Names of each block around the place, the innermost last.
    scopes: Vec<BTreeMap<String, Option<ItemId>>>,
}

impl<'a> Body<'a> {
    /// The outermost place of a module.
    pub fn new(types: &'a CrateTypes<'a>, module: usize) -> Self {
        Self {
            types,
            module,
            self_type: None,
            generics: BTreeSet::new(),
            scopes: Vec::new(),
        }
    }

    /// The inside of an implementation, outside of its functions.
    pub fn of_impl(&self, block: &syn::ItemImpl) -> Self {
        Self {
            self_type: self.types.self_type(self.module, block),
            generics: names_of(&block.generics),
            ..Self::new(self.types, self.module)
        }
    }

    /// The inside of a trait: what `Self` is depends on the implementation.
    pub fn of_trait(&self, block: &syn::ItemTrait) -> Self {
        Self {
            generics: names_of(&block.generics),
            ..Self::new(self.types, self.module)
        }
    }

    /// The file that holds it, by its position among the sources.
    pub fn file(&self) -> usize {
        self.types.of.modules[self.module].file
    }

    /// The inside of a function; variables around it are out of its reach.
    pub fn of_function(&self, signature: &syn::Signature) -> Self {
        let mut this = Self {
            self_type: self.self_type.clone(),
            generics: &self.generics | &names_of(&signature.generics),
            ..Self::new(self.types, self.module)
        };
        this.enter();
        for input in &signature.inputs {
            match input {
                syn::FnArg::Receiver(receiver) => {
                    let ty = match &receiver.kind {
                        syn::ReceiverKind::Typed(_, ty) => this.types.resolve(this.place(), ty),
                        _ => this.self_type.clone(),
                    };
                    this.note("self", ty);
                }
                syn::FnArg::Typed(parameter) => {
                    let ty = this.types.resolve(this.place(), &parameter.ty);
                    this.bind(&parameter.pat, ty);
                }
            }
        }
        this
    }

    /// A block begins.
    pub fn enter(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    /// The block ends, and with it the names that it has bound.
    pub fn leave(&mut self) {
        self.scopes.pop();
    }

    fn note(&mut self, name: &str, ty: Option<ItemId>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), ty);
        }
    }

    fn variable(&self, name: &str) -> Option<&Option<ItemId>> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn place(&self) -> Place<'_> {
        Place {
            module: self.module,
            self_type: self.self_type.as_ref(),
            generics: &self.generics,
        }
    }

    /// Binds the names of a pattern for a value of this type.
    pub fn bind(&mut self, pattern: &syn::Pat, ty: Option<ItemId>) {
        match pattern {
            syn::Pat::Ident(name) if name.subpat.is_none() => {
                self.note(&name.ident.to_string(), ty);
            }
            syn::Pat::Reference(inner) => self.bind(&inner.pat, ty),
            syn::Pat::Paren(inner) => self.bind(&inner.pat, ty),
            syn::Pat::Guard(inner) => self.bind(&inner.pat, ty),
            syn::Pat::Type(typed) => {
                let ty = self.types.resolve(self.place(), &typed.ty);
                self.bind(&typed.pat, ty);
            }
            syn::Pat::Struct(parts) => {
                let of = self.types.resolve_path(self.place(), &parts.path);
                for part in &parts.fields {
                    let of = of.as_ref();
                    let ty = of.and_then(|of| self.types.field(of, &member(&part.member)));
                    self.bind(&part.pat, ty);
                }
            }
            other => {
                let mut names = Names::default();
                names.visit_pat(other);
                for name in names.0 {
                    self.note(&name, None);
                }
            }
        }
    }

    /// The type of an expression.
    pub fn type_of(&self, expr: &syn::Expr) -> Option<ItemId> {
        match expr {
            syn::Expr::Path(p) => match names_of_path(&p.path).as_slice() {
                [name] if self.variable(name).is_some() => self.variable(name)?.clone(),
                names if p.qself.is_none() => self.types.named(self.place(), names),
                _ => None,
            },
            syn::Expr::Reference(e) => self.type_of(&e.expr),
            syn::Expr::Paren(e) => self.type_of(&e.expr),
            syn::Expr::Group(e) => self.type_of(&e.expr),
            syn::Expr::Unary(e) if matches!(e.op, syn::UnOp::Deref(_)) => self.type_of(&e.expr),
            syn::Expr::Field(e) => {
                let of = self.type_of(&e.base)?;
                self.types.field(&of, &member(&e.member))
            }
            syn::Expr::Struct(e) => self.types.resolve_path(self.place(), &e.path),
            syn::Expr::MethodCall(call) => self.method(call)?.gives.clone(),
            syn::Expr::Call(call) => {
                let syn::Expr::Path(p) = &*call.func else {
                    return None;
                };
                match self.function(p) {
                    Some(function) => function.gives.clone(),
                    // A struct whose fields have no names.
                    None => self.type_of(&call.func),
                }
            }
            _ => None,
        }
    }

    /// The inherent method that is called.
    pub fn method(&self, call: &syn::ExprMethodCall) -> Option<&'a Function> {
        let receiver = self.type_of(&call.receiver)?;
        let types = self.types;
        types.method(&receiver, &call.method.to_string())
    }

    /// The function that a path names, unless it is a variable.
    pub fn function(&self, path: &syn::ExprPath) -> Option<&'a Function> {
        let names = names_of_path(&path.path);
        let hidden = matches!(names.as_slice(), [name] if self.variable(name).is_some());
        if hidden || path.qself.is_some() || path.path.leading_colon.is_some() {
            return None;
        }
        let types = self.types;
        types.function_at(self.place(), &names)
    }
}

fn member(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(name) => name.to_string(),
        syn::Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Names that a pattern binds.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, name: &'ast syn::PatIdent) {
        self.0.push(name.ident.to_string());
        visit::visit_pat_ident(self, name);
    }
}
