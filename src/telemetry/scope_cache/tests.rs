use std::thread;

use super::*;

#[test]
fn everything_that_was_put_down_is_found_and_nothing_else() {
    let map = AppendMap::default();
    // Hashes that differ only in their upper bits, only in their lower bits, or not at all.
    let hash = |number: u64| if number % 2 == 0 { number << 40 } else { number / 10 };
    for number in 0..5000_u64 {
        assert_eq!(map.find(hash(number), |there| *there == number), None);
        assert_eq!(map.insert(hash(number), number, |there| *there == number), (&number, true));
    }
    for number in 0..5000_u64 {
        assert_eq!(map.find(hash(number), |there| *there == number), Some(&number));
    }
    assert_eq!(map.find(hash(5001), |there| *there == 5001), None);
}

#[test]
fn of_two_that_are_the_same_the_first_stays() {
    let map = AppendMap::default();
    let name = |item: &(&str, u32)| item.0 == "orders";
    assert_eq!(map.insert(7, ("orders", 1), name), (&("orders", 1), true));
    assert_eq!(map.insert(7, ("orders", 2), name), (&("orders", 1), false));
    assert_eq!(map.find(7, name), Some(&("orders", 1)));
}

#[test]
fn threads_that_put_down_the_same_agree_on_one() {
    let map = AppendMap::default();
    let kept: Vec<Vec<(u64, usize)>> = thread::scope(|scope| {
        let put_all = |thread: usize| {
            let map = &map;
            move || {
                (0..500_u64)
                    .map(|item| *map.insert(item % 9, (item, thread), |there| there.0 == item).0)
                    .collect()
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(put_all(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(kept.windows(2).all(|pair| pair[0] == pair[1]));
}

fn length(cache: &ScopeCache<String, usize>, key: &str) -> (usize, bool) {
    let length =
        cache.get_or_make(key, |known| known == key, || (key.to_owned(), key.len() + known_keys(cache)));
    (*length, matches!(length, Cow::Borrowed(_)))
}

fn known_keys(cache: &ScopeCache<String, usize>) -> usize {
    cache.count.load(Ordering::Relaxed)
}

#[test]
fn a_value_is_made_once_for_each_key() {
    let cache = ScopeCache::default();
    assert_eq!((length(&cache, "cart"), length(&cache, "cart")), ((4, true), (4, true)));
    assert_eq!(length(&cache, "till"), (5, true));
    assert_eq!(known_keys(&cache), 2);
}

#[test]
fn a_key_that_finds_no_room_has_a_value_of_its_own_nevertheless() {
    let cache = ScopeCache::default();
    for number in 0..MAX_SCOPES {
        assert!(length(&cache, &format!("module {number}")).1);
    }
    assert_eq!(length(&cache, "cart"), (4 + MAX_SCOPES, false));
    assert_eq!(length(&cache, "module 0"), (8, true));
    assert_eq!(known_keys(&cache), MAX_SCOPES);
}
