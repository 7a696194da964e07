//! An ordered map with cheap copies.

use std::sync::Arc;

/// An ordered map. A clone shares all nodes with the original. A later change copies only the nodes on the path to the entry, in
/// logarithmic time.
///
/// For values changed by one thread and read by others, in a [`VersionCell`](crate::VersionCell) snapshot. Implemented as a B+
/// tree with at most 16 entries per node.
#[derive(Clone, Debug)]
pub struct PersistentMap<K, V> {
    root: Arc<MapNode<K, V>>,
}

#[derive(Clone, Debug)]
enum MapNode<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Child<K, V>>),
}

#[derive(Clone, Debug)]
struct Child<K, V> {
    /// Smallest key of the subtree. Smaller keys belong to the previous child, if there is one.
    least: K,
    /// Number of entries of the subtree.
    count: usize,
    node: Arc<MapNode<K, V>>,
}

/// Maximum number of entries per node. A change of a shared map clones up to this many values or child pointers per level.
const WIDTH: usize = 16;

/// A node with fewer entries is merged with a neighbour if both fit into one node.
const NARROW: usize = WIDTH / 4;

impl<K, V> Default for PersistentMap<K, V> {
    fn default() -> Self {
        Self { root: Arc::new(MapNode::Leaf(Vec::new())) }
    }
}

impl<K: Ord + Copy, V: Clone> PersistentMap<K, V> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.count()
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let mut node = &self.root;
        loop {
            match &**node {
                MapNode::Leaf(entries) => return Some(&entries[find(entries, key).ok()?].1),
                MapNode::Inner(children) => node = &children[below(children, key)].node,
            }
        }
    }

    /// The entry at index `rank` in key order.
    #[must_use]
    pub fn nth(&self, mut rank: usize) -> Option<(&K, &V)> {
        let mut node = &self.root;
        loop {
            match &**node {
                MapNode::Leaf(entries) => return entries.get(rank).map(|(key, value)| (key, value)),
                MapNode::Inner(children) => node = &children[with_rank(children, &mut rank)?].node,
            }
        }
    }

    /// All entries by key, ascending.
    #[must_use]
    pub fn iter(&self) -> MapEntries<'_, K, V> {
        let mut entries = MapEntries { leaf: [].iter(), inner: Vec::new() };
        entries.descend(&self.root);
        entries
    }

    /// The entries from `key` on, ascending.
    #[must_use]
    pub fn iter_from(&self, key: &K) -> MapEntries<'_, K, V> {
        let mut entries = MapEntries { leaf: [].iter(), inner: Vec::new() };
        let mut node = &*self.root;
        while let MapNode::Inner(children) = node {
            let at = below(children, key);
            entries.inner.push(children[at + 1..].iter());
            node = &children[at].node;
        }
        if let MapNode::Leaf(leaf) = node {
            entries.leaf = leaf[find(leaf, key).unwrap_or_else(|place| place)..].iter();
        }
        entries
    }

    /// The entries from index `rank` on, ascending.
    #[must_use]
    pub fn iter_after(&self, mut rank: usize) -> MapEntries<'_, K, V> {
        let mut entries = MapEntries { leaf: [].iter(), inner: Vec::new() };
        let mut node = &*self.root;
        while let MapNode::Inner(children) = node {
            let Some(at) = with_rank(children, &mut rank) else { return entries };
            entries.inner.push(children[at + 1..].iter());
            node = &children[at].node;
        }
        if let MapNode::Leaf(leaf) = node {
            entries.leaf = leaf[rank.min(leaf.len())..].iter();
        }
        entries
    }

    /// Inserts or replaces an entry. Returns the former value of the key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (former, right) = insert(&mut self.root, key, value);
        if let Some(right) = right {
            let left = std::mem::replace(&mut self.root, Arc::new(MapNode::Inner(Vec::new())));
            let halves = [left, right].into_iter().filter_map(Child::of).collect();
            self.root = Arc::new(MapNode::Inner(halves));
        }
        former
    }

    /// Removes an entry and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        // Do not copy nodes for a missing key.
        self.get(key)?;
        let removed = remove(&mut self.root, key);
        while let MapNode::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            self.root = Arc::clone(&only.node);
        }
        removed
    }
}

impl<K: Ord + Copy, V: Clone> FromIterator<(K, V)> for PersistentMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Copy, V: Clone> Extend<(K, V)> for PersistentMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

/// Iterator over entries in key order.
pub struct MapEntries<'m, K, V> {
    leaf: std::slice::Iter<'m, (K, V)>,
    /// The remaining nodes of each level above.
    inner: Vec<std::slice::Iter<'m, Child<K, V>>>,
}

impl<'m, K, V> MapEntries<'m, K, V> {
    fn descend(&mut self, mut node: &'m MapNode<K, V>) {
        loop {
            match node {
                MapNode::Leaf(entries) => return self.leaf = entries.iter(),
                MapNode::Inner(children) => {
                    let mut children = children.iter();
                    let Some(first) = children.next() else { return };
                    self.inner.push(children);
                    node = &first.node;
                }
            }
        }
    }
}

impl<'m, K, V> Iterator for MapEntries<'m, K, V> {
    type Item = (&'m K, &'m V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            match self.inner.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => drop(self.inner.pop()),
            }
        }
    }
}

impl<K, V> MapNode<K, V> {
    fn width(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }
}

impl<K: Copy, V> Child<K, V> {
    /// None for a node without entries.
    fn of(node: Arc<MapNode<K, V>>) -> Option<Self> {
        let least = match &*node {
            MapNode::Leaf(entries) => entries.first()?.0,
            MapNode::Inner(children) => children.first()?.least,
        };
        Some(Self { least, count: node.count(), node })
    }
}

fn find<K: Ord, V>(entries: &[(K, V)], key: &K) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| other.cmp(key))
}

/// Index of the child that contains the key, if any does.
fn below<K: Ord, V>(children: &[Child<K, V>], key: &K) -> usize {
    children.partition_point(|child| child.least <= *key).saturating_sub(1)
}

/// Index of the child with the entry at `rank`, if there is one. `rank` becomes the entry's index in that child.
fn with_rank<K, V>(children: &[Child<K, V>], rank: &mut usize) -> Option<usize> {
    children.iter().position(|child| {
        let is_here = *rank < child.count;
        *rank -= if is_here { 0 } else { child.count };
        is_here
    })
}

/// Inserts an entry. Returns the former value, and the right half of the node if it was split.
fn insert<K: Ord + Copy, V: Clone>(
    node: &mut Arc<MapNode<K, V>>,
    key: K,
    value: V,
) -> (Option<V>, Option<Arc<MapNode<K, V>>>) {
    match Arc::make_mut(node) {
        MapNode::Leaf(entries) => match find(entries, &key) {
            Ok(place) => (Some(std::mem::replace(&mut entries[place].1, value)), None),
            Err(place) => {
                entries.insert(place, (key, value));
                (None, split(entries, place).map(|right| Arc::new(MapNode::Leaf(right))))
            }
        },
        MapNode::Inner(children) => {
            let at = below(children, &key);
            let child = &mut children[at];
            child.least = child.least.min(key);
            let (former, right) = insert(&mut child.node, key, value);
            child.count += usize::from(former.is_none());
            let Some(right) = right.and_then(Child::of) else { return (former, None) };
            child.count -= right.count;
            children.insert(at + 1, right);
            (former, split(children, at + 1).map(|right| Arc::new(MapNode::Inner(right))))
        }
    }
}

/// Splits off the right half of a list that exceeds [`WIDTH`] after an insertion at `place`. Ascending insertions leave full nodes behind.
fn split<T>(list: &mut Vec<T>, place: usize) -> Option<Vec<T>> {
    let is_last = place + 1 == list.len();
    let middle = if is_last { WIDTH } else { WIDTH / 2 };
    (list.len() > WIDTH).then(|| list.split_off(middle))
}

fn remove<K: Ord + Copy, V: Clone>(node: &mut Arc<MapNode<K, V>>, key: &K) -> Option<V> {
    match Arc::make_mut(node) {
        MapNode::Leaf(entries) => find(entries, key).ok().map(|place| entries.remove(place).1),
        MapNode::Inner(children) => {
            let at = below(children, key);
            let removed = remove(&mut children[at].node, key);
            match Child::of(Arc::clone(&children[at].node)) {
                Some(child) => {
                    let is_narrow = child.node.width() < NARROW;
                    children[at] = child;
                    if is_narrow {
                        join(children, at);
                    }
                }
                None => drop(children.remove(at)),
            }
            removed
        }
    }
}

/// Merges a node with a neighbour, if both fit into one.
fn join<K: Ord + Copy, V: Clone>(children: &mut Vec<Child<K, V>>, at: usize) {
    let fits = |left: usize| {
        let pair = children.get(left..left + 2)?;
        (pair[0].node.width() + pair[1].node.width() <= WIDTH).then_some(left)
    };
    let Some(left) = at.checked_sub(1).and_then(fits).or_else(|| fits(at)) else { return };
    let right = children.remove(left + 1);
    let child = &mut children[left];
    child.count += right.count;
    match (Arc::make_mut(&mut child.node), &*right.node) {
        (MapNode::Leaf(entries), MapNode::Leaf(more)) => entries.extend_from_slice(more),
        (MapNode::Inner(inner), MapNode::Inner(more)) => inner.extend_from_slice(more),
        _ => unreachable!("all leaves are equally deep"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl<V> PersistentMap<u32, V> {
        /// Panics if a node violates an invariant. Returns the depth.
        fn check_invariants(&self) -> usize {
            check(&self.root, true).0
        }
    }

    /// The depth of a node, the number of its entries and its least key.
    fn check<V>(node: &MapNode<u32, V>, is_root: bool) -> (usize, usize, Option<u32>) {
        assert!(node.width() <= WIDTH && (is_root || node.width() > 0));
        match node {
            MapNode::Leaf(entries) => {
                assert!(entries.is_sorted_by(|left, right| left.0 < right.0));
                (1, entries.len(), entries.first().map(|entry| entry.0))
            }
            MapNode::Inner(children) => {
                assert!(!is_root || children.len() > 1);
                let below: Vec<_> = children.iter().map(|child| check(&child.node, false)).collect();
                for (child, (depth, count, least)) in children.iter().zip(&below) {
                    assert_eq!((child.count, Some(child.least), *depth), (*count, *least, below[0].0));
                }
                (below[0].0 + 1, node.count(), below[0].2)
            }
        }
    }

    fn pairs(map: &PersistentMap<u32, u32>) -> Vec<(u32, u32)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        /// Each step inserts or removes a key, or keeps a clone. Clones must stay unchanged.
        #[test]
        fn persistent_map_behaves_like_a_btree_map(steps in prop::collection::vec((0_u32..300, 0_u32..5), 0..400)) {
            let (mut map, mut model) = (PersistentMap::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (key, step) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(map.insert(key, step), model.insert(key, step)),
                    2 | 3 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    _ => kept.push((map.clone(), model.clone())),
                }
                map.check_invariants();
                prop_assert_eq!((map.get(&key), map.len()), (model.get(&key), model.len()));
            }
            kept.push((map, model));
            for (map, model) in kept {
                prop_assert_eq!(pairs(&map), model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
                let from = map.iter_from(&150).map(|(key, _)| *key);
                prop_assert!(from.eq(model.range(150..).map(|(key, _)| *key)));
                let ranks = (0..=model.len()).map(|rank| map.nth(rank).map(|(key, _)| *key));
                prop_assert!(ranks.eq(model.keys().copied().map(Some).chain([None])));
                for rank in [0, 1, 40, model.len(), 400] {
                    let after = map.iter_after(rank).map(|(key, _)| *key);
                    prop_assert!(after.eq(model.keys().copied().skip(rank)), "after {}", rank);
                }
            }
        }
    }

    /// A published map shares all nodes with the next version, except for those on one path.
    #[test]
    fn a_map_change_copies_one_node_of_each_level() {
        #[derive(Debug)]
        struct CloneCounter<'c>(&'c std::cell::Cell<usize>);
        impl Clone for CloneCounter<'_> {
            fn clone(&self) -> Self {
                self.0.set(self.0.get() + 1);
                Self(self.0)
            }
        }
        let copies = std::cell::Cell::new(0);
        let mut map: PersistentMap<_, _> = (0..10_000).map(|key| (key, CloneCounter(&copies))).collect();
        assert_eq!(copies.get(), 0, "without copies all is changed in place");
        for key in [0, 5_000, 9_999] {
            let published = map.clone();
            map.remove(&key);
            assert!((1..=WIDTH).contains(&copies.take()), "removing {key}");
            map.insert(key, CloneCounter(&copies));
            assert!(copies.take() <= 2 * WIDTH, "inserting {key}");
            drop(published);
        }
    }

    #[test]
    fn the_tree_height_is_small_for_any_order_of_changes() {
        let mut map: PersistentMap<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        assert_eq!(map.check_invariants(), 4, "ascending keys fill their nodes");
        for key in (0..10_000).filter(|key| key % 100 != 0) {
            map.remove(&key);
        }
        assert!(map.check_invariants() <= 4);
        for key in 0..10_000 {
            map.remove(&key);
        }
        assert_eq!((map.check_invariants(), map.len()), (1, 0));
        map.extend((0..10_000).rev().map(|key| (key, key)));
        assert!(map.check_invariants() <= 5);
    }
}
