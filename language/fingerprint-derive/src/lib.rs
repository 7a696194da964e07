//! The derive of `weir_fingerprint::Canonical`: the canonical form of a type is made of its fields, in order.
//!
//! A new field of a type is part of its form by default. A field without a meaning, such as a position in a file, is left out by
//! `#[canonical(skip = "<reason>")]`. The reason is mandatory.
//!
//! The crate refuses to know the types and the hash: it writes calls of the encoder, one for each field.
//! Begin with [`derive_canonical`].

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Index, Lit, LitStr, Meta, Path, Result,
};

/// Implements `Canonical`. Attributes of a field:
///
/// - `#[canonical(skip = "<reason>")]`: the field is not part of the form;
/// - `#[canonical(with = <path>)]`: the function at the path encodes the field;
/// - `#[canonical(flat)]`, `#[canonical(flat = "<prefix>")]`: the parts of the field are parts of this type, their labels with the
///   prefix.
///
/// The label of a part is the word in backticks that begins its documentation, or the name of its field.
#[proc_macro_derive(Canonical, attributes(canonical))]
pub fn derive_canonical(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let type_name = name.to_string();
    let body = match &input.data {
        Data::Struct(data) => {
            let (pattern, encoding) = fields(&data.fields)?;
            quote! {
                let Self #pattern = self;
                out.begin(#type_name);
                #encoding
            }
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let (pattern, encoding) = fields(&variant.fields)?;
                let (ident, variant_name) = (&variant.ident, variant.ident.to_string());
                Ok(quote! {
                    Self::#ident #pattern => {
                        out.begin_variant(#type_name, #variant_name);
                        #encoding
                    }
                })
            });
            let arms = arms.collect::<Result<Vec<_>>>()?;
            quote!(match self { #(#arms)* })
        }
        Data::Union(_) => return Err(Error::new_spanned(name, "Canonical cannot be derived for a union")),
    };
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let parameters = input.generics.type_params().map(|parameter| &parameter.ident);
    let bounds = match bounds {
        Some(bounds) => quote!(#bounds, #(#parameters: ::weir_fingerprint::Canonical),*),
        None => quote!(where #(#parameters: ::weir_fingerprint::Canonical),*),
    };
    Ok(quote! {
        impl #generics ::weir_fingerprint::Canonical for #name #arguments #bounds {
            fn encode(&self, out: &mut ::weir_fingerprint::FormEncoder<'_>) {
                #body
            }
        }
    })
}

/// The pattern that binds all fields, and the statements that encode them.
fn fields(fields: &Fields) -> Result<(TokenStream, TokenStream)> {
    let mut bindings = Vec::new();
    let mut statements = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let binding = match &field.ident {
            Some(ident) => format_ident!("field_{ident}"),
            None => format_ident!("field_{index}"),
        };
        let member = match &field.ident {
            Some(ident) => quote!(#ident),
            None => {
                let index = Index::from(index);
                quote!(#index)
            }
        };
        let label = label(field, index);
        let (pattern, statement) = match Treatment::of(field)? {
            Treatment::Part => (quote!(#binding), quote!(out.field(#label, #binding);)),
            Treatment::With(path) => {
                (quote!(#binding), quote!(out.field_with(#label, |out| #path(#binding, out));))
            }
            Treatment::Flat(prefix) => (quote!(#binding), quote!(out.flat(#prefix, #binding);)),
            Treatment::Skipped => (quote!(_), quote!()),
        };
        bindings.push(quote!(#member: #pattern));
        statements.push(statement);
    }
    Ok((quote!({ #(#bindings),* }), quote!(#(#statements)*)))
}

/// How a field is encoded.
enum Treatment {
    /// The field is one part of the form.
    Part,
    /// The field is one part, which this function encodes.
    With(Path),
    /// The parts of the field's own form become parts of this one.
    Flat(String),
    Skipped,
}

impl Treatment {
    fn of(field: &Field) -> Result<Treatment> {
        let mut treatment = None;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("canonical")) {
            attribute.parse_nested_meta(|meta| {
                let found = if meta.path.is_ident("skip") {
                    let reason: LitStr = meta.value()?.parse()?;
                    if reason.value().trim().is_empty() {
                        return Err(Error::new_spanned(reason, "the reason is missing"));
                    }
                    Treatment::Skipped
                } else if meta.path.is_ident("with") {
                    Treatment::With(meta.value()?.parse()?)
                } else if meta.path.is_ident("flat") {
                    let prefix = match meta.input.peek(syn::Token![=]) {
                        true => meta.value()?.parse::<LitStr>()?.value(),
                        false => String::new(),
                    };
                    Treatment::Flat(prefix)
                } else {
                    return Err(meta.error("expects skip = \"<reason>\", with = <path> or flat"));
                };
                match treatment.replace(found) {
                    None => Ok(()),
                    Some(_) => Err(meta.error("there is one treatment for each field")),
                }
            })?;
        }
        Ok(treatment.unwrap_or(Treatment::Part))
    }
}

/// The word in backticks that begins the documentation of a field: a word of the language. Otherwise the name of the field.
fn label(field: &Field, index: usize) -> String {
    let from_documentation = field.attrs.iter().find_map(documentation).and_then(|text| {
        let (word, _) = text.trim_start().strip_prefix('`')?.split_once('`')?;
        Some(word.trim_end_matches(" ...").to_owned())
    });
    from_documentation.unwrap_or_else(|| match &field.ident {
        Some(ident) => ident.to_string().replace('_', " "),
        None => index.to_string(),
    })
}

fn documentation(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: Option<&str>) {
        let input = syn::parse_str(source).expect("an item of Rust");
        assert_eq!(implement(&input).err().map(|error| error.to_string()).as_deref(), expected, "{source}");
    }

    #[test]
    fn derive_rejects_invalid_field_attributes() {
        check("struct A { b: u8, #[canonical(skip = \"a position\")] c: u8 }", None);
        check("enum A { B, C(#[canonical(with = f)] u8) }", None);
        check("struct A { #[canonical(skip = \" \")] b: u8 }", Some("the reason is missing"));
        check("struct A { #[canonical(skip)] b: u8 }", Some("expected `=`"));
        check(
            "struct A { #[canonical(drop)] b: u8 }",
            Some("expects skip = \"<reason>\", with = <path> or flat"),
        );
        check(
            "struct A { #[canonical(flat)] #[canonical(with = f)] b: u8 }",
            Some("there is one treatment for each field"),
        );
        check("union A { b: u8 }", Some("Canonical cannot be derived for a union"));
    }
}
