//! Random nestings of MPI-like types, each with the brute-force list of its bytes.

use crate::model::Model;
use proptest::prelude::*;
use trireme_partition::{ArraySpec, Datatype, Dist, Error, Order, Part};

/// A type as a user would build it.
#[derive(Clone, Debug)]
pub enum Expr {
    Bytes(u64),
    Contiguous(u64, Box<Expr>),
    Vector(u64, u64, i64, Box<Expr>),
    Hvector(u64, u64, i64, Box<Expr>),
    Indexed(Vec<(u64, i64)>, Box<Expr>),
    Struct(Vec<(i64, Expr)>),
    Resized(i64, i64, Box<Expr>),
    Subarray(Vec<(u64, u64, u64)>, bool, Box<Expr>),
    Darray(Vec<(u64, Dist, u32)>, u32, bool, Box<Expr>),
}

/// The bytes of a type in view order, and its bounds.
#[derive(Clone)]
pub struct Bytes {
    pub offsets: Vec<i64>,
    lower: i64,
    upper: i64,
}

impl Bytes {
    fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    fn nothing(&self) -> bool {
        self.offsets.is_empty() && self.lower == 0 && self.upper == 0
    }

    fn at(places: &[(i64, Self)]) -> Self {
        let mut all = Self {
            offsets: Vec::new(),
            lower: 0,
            upper: 0,
        };
        let mut first = true;
        for (at, bytes) in places {
            all.offsets.extend(bytes.offsets.iter().map(|o| o + at));
            if bytes.nothing() {
                continue;
            }
            let (lower, upper) = (at + bytes.lower, at + bytes.upper);
            all.lower = if first { lower } else { all.lower.min(lower) };
            all.upper = if first { upper } else { all.upper.max(upper) };
            first = false;
        }
        all
    }

    fn copies(&self, places: impl Iterator<Item = i64>) -> Self {
        Self::at(&places.map(|at| (at, self.clone())).collect::<Vec<_>>())
    }
}

fn order(column_major: bool) -> Order {
    if column_major {
        Order::ColumnMajor
    } else {
        Order::RowMajor
    }
}

/// All index vectors of a box, in the given element order.
pub fn indices(shape: &[u64], order: Order) -> Vec<Vec<u64>> {
    let total: u64 = shape.iter().product();
    let dims: Vec<usize> = match order {
        Order::RowMajor => (0..shape.len()).rev().collect(),
        Order::ColumnMajor => (0..shape.len()).collect(),
    };
    (0..total)
        .map(|mut n| {
            let mut index = vec![0; shape.len()];
            for &d in &dims {
                index[d] = n % shape[d];
                n /= shape[d];
            }
            index
        })
        .collect()
}

/// Who owns index `i` of a dimension.
pub fn owner(dist: Dist, extent: u64, processes: u32, i: u64) -> u32 {
    match dist {
        Dist::None => 0,
        Dist::Block => (i / extent.div_ceil(u64::from(processes))) as u32,
        Dist::BlockOf(k) => (i / k) as u32,
        Dist::Cyclic(k) => ((i / k) % u64::from(processes)) as u32,
    }
}

impl Expr {
    pub fn datatype(&self) -> Result<Datatype, Error> {
        match self {
            Self::Bytes(n) => Datatype::bytes(*n),
            Self::Contiguous(n, e) => e.datatype()?.contiguous(*n),
            Self::Vector(n, b, s, e) => e.datatype()?.vector(*n, *b, *s),
            Self::Hvector(n, b, s, e) => e.datatype()?.hvector(*n, *b, *s),
            Self::Indexed(blocks, e) => e.datatype()?.indexed(blocks),
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(at, e)| Ok((*at, e.datatype()?)));
                Datatype::structure(&fields.collect::<Result<Vec<_>, Error>>()?)
            }
            Self::Resized(lower, extent, e) => e.datatype()?.resized(*lower, *extent),
            Self::Subarray(dims, column, e) => {
                let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
                let sizes: Vec<u64> = dims.iter().map(|d| d.1).collect();
                let starts: Vec<u64> = dims.iter().map(|d| d.2).collect();
                e.datatype()?
                    .subarray(&shape, &sizes, &starts, order(*column))
            }
            Self::Darray(dims, rank, column, e) => {
                e.datatype()?.darray(&darray_spec(dims, *column), *rank)
            }
        }
    }

    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Bytes(n) => Bytes {
                offsets: (0..*n as i64).collect(),
                lower: 0,
                upper: *n as i64,
            },
            Self::Contiguous(n, e) => {
                let e = e.bytes();
                e.copies((0..*n as i64).map(|i| i * e.extent()))
            }
            Self::Vector(n, b, s, e) => {
                let e = e.bytes();
                let places = (0..*n as i64)
                    .flat_map(|i| (0..*b as i64).map(move |j| (i, j)))
                    .map(|(i, j)| (i * s + j) * e.extent());
                e.copies(places)
            }
            Self::Hvector(n, b, s, e) => {
                let e = e.bytes();
                let places = (0..*n as i64)
                    .flat_map(|i| (0..*b as i64).map(move |j| (i, j)))
                    .map(|(i, j)| i * s + j * e.extent());
                e.copies(places)
            }
            Self::Indexed(blocks, e) => {
                let e = e.bytes();
                let places = blocks
                    .iter()
                    .flat_map(|&(n, at)| (0..n as i64).map(move |j| (at, j)))
                    .map(|(at, j)| (at + j) * e.extent());
                e.copies(places)
            }
            Self::Struct(fields) => Bytes::at(
                &fields
                    .iter()
                    .map(|(at, e)| (*at, e.bytes()))
                    .collect::<Vec<_>>(),
            ),
            Self::Resized(lower, extent, e) => Bytes {
                lower: *lower,
                upper: lower + extent,
                ..e.bytes()
            },
            Self::Subarray(dims, column, e) => {
                let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
                let inside = |index: &[u64]| {
                    index
                        .iter()
                        .zip(dims)
                        .all(|(&i, d)| (d.2..d.2 + d.1).contains(&i))
                };
                in_array(&shape, order(*column), e, inside)
            }
            Self::Darray(dims, rank, column, e) => {
                let spec = darray_spec(dims, *column);
                let grid: Vec<u64> = spec.grid.iter().map(|&p| u64::from(p)).collect();
                let place = indices(&grid, Order::RowMajor)[*rank as usize].clone();
                let mine = |index: &[u64]| {
                    (0..dims.len()).all(|d| {
                        let at = owner(dims[d].1, dims[d].0, dims[d].2, index[d]);
                        u64::from(at) == place[d]
                    })
                };
                in_array(&spec.shape, spec.order, e, mine)
            }
        }
    }

    /// The part and the model of `count` items from `displacement` on; both or neither exist.
    pub fn part(&self, displacement: u64, count: u64) -> (Result<Part, Error>, Option<Model>) {
        let part = self
            .datatype()
            .and_then(|t| Part::of(displacement, &t, count));
        let bytes = self.bytes();
        let all = bytes.copies((0..count as i64).map(|i| i * bytes.extent()));
        let offsets: Vec<i64> = all
            .offsets
            .iter()
            .map(|o| o + displacement as i64)
            .collect();
        (part, Model::new(&offsets))
    }
}

fn darray_spec(dims: &[(u64, Dist, u32)], column: bool) -> ArraySpec {
    let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
    let dist: Vec<Dist> = dims.iter().map(|d| d.1).collect();
    let grid: Vec<u32> = dims.iter().map(|d| d.2).collect();
    ArraySpec::new(&shape, 1, &dist, &grid).in_order(order(column))
}

fn in_array(shape: &[u64], order: Order, e: &Expr, mine: impl Fn(&[u64]) -> bool) -> Bytes {
    let e = e.bytes();
    let places = indices(shape, order)
        .into_iter()
        .enumerate()
        .filter(|(_, index)| mine(index))
        .map(|(n, _)| n as i64 * e.extent());
    let total: u64 = shape.iter().product();
    let bytes = e.copies(places);
    Bytes {
        lower: 0,
        upper: total as i64 * e.extent(),
        ..bytes
    }
}

/// A random distribution of one dimension: (extent, distribution, processes).
pub fn dimension() -> impl Strategy<Value = (u64, Dist, u32)> {
    (0u64..7, 1u32..4, 1u64..4, 0..4).prop_map(|(extent, p, k, kind)| match kind {
        0 => (extent, Dist::None, 1),
        1 => (extent, Dist::Block, p),
        2 => (
            extent,
            Dist::BlockOf(extent.div_ceil(u64::from(p)).max(1) + k - 1),
            p,
        ),
        _ => (extent, Dist::Cyclic(k), p),
    })
}

/// Random nestings, shallow enough for the brute force.
pub fn expr() -> impl Strategy<Value = Expr> {
    let leaf = (1u64..6).prop_map(Expr::Bytes);
    leaf.prop_recursive(4, 12, 3, |inner| {
        let one = inner.clone().prop_map(Box::new);
        prop_oneof![
            (0u64..4, one.clone()).prop_map(|(n, e)| Expr::Contiguous(n, e)),
            (1u64..5, 1u64..3, -4i64..6, one.clone())
                .prop_map(|(n, b, s, e)| Expr::Vector(n, b, s, e)),
            (1u64..5, 1u64..3, -20i64..60, one.clone())
                .prop_map(|(n, b, s, e)| Expr::Hvector(n, b, s, e)),
            (
                prop::collection::vec((0u64..3, 0i64..12), 1..4),
                one.clone()
            )
                .prop_map(|(blocks, e)| Expr::Indexed(blocks, e)),
            // Fields in rising places, so that many are valid, and some that are not.
            (
                prop::collection::vec((0i64..90, inner.clone()), 1..4),
                any::<bool>()
            )
                .prop_map(|(mut fields, sorted)| {
                    if sorted {
                        let mut at = 0;
                        for (gap, e) in &mut fields {
                            at += *gap % 9;
                            let upper = e.bytes().offsets.iter().max().map_or(0, |m| m + 1);
                            *gap = at;
                            at += upper;
                        }
                    }
                    Expr::Struct(fields)
                }),
            (-3i64..4, 0i64..40, one.clone()).prop_map(|(l, x, e)| Expr::Resized(l, x, e)),
            (
                prop::collection::vec((1u64..6, 0u64..6, 0u64..6), 1..4),
                any::<bool>(),
                one.clone()
            )
                .prop_map(|(dims, column, e)| {
                    let fit = dims.into_iter().map(|(n, size, start)| {
                        let start = start % n;
                        (n, size % (n - start + 1), start)
                    });
                    Expr::Subarray(fit.collect(), column, e)
                }),
            (
                prop::collection::vec(dimension(), 1..3),
                any::<u32>(),
                any::<bool>(),
                one
            )
                .prop_map(|(dims, rank, column, e)| {
                    let processes: u32 = dims.iter().map(|d| d.2).product();
                    Expr::Darray(dims, rank % processes, column, e)
                }),
        ]
    })
    .prop_filter("small enough for the brute force", |e| {
        e.bytes().offsets.len() < 600
    })
}

/// A random part with its model, not refused.
pub fn part() -> impl Strategy<Value = (Part, Model)> {
    (expr(), 0u64..40, 1u64..3).prop_filter_map("a valid part", |(e, displacement, count)| {
        let (part, model) = e.part(displacement, count);
        Some((part.ok()?, model?))
    })
}
