//! Every class of address, with the first and last of each range and their neighbours.

use memory_http::AddressClass::{self, *};

#[test]
fn every_special_range_has_its_class() {
    let table: &[(AddressClass, &[&str])] = &[
        (Public, &["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"]),
        (
            Public,
            &[
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
            ],
        ),
        (
            Public,
            &["192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"],
        ),
        (
            Public,
            &["198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "1.0.0.0"],
        ),
        (
            Public,
            &[
                "2606:4700:4700::1111",
                "2000::",
                "2001:200::1",
                "2001:4860:4860::8888",
                "2001:db9::",
                "3ffe::1",
            ],
        ),
        (Public, &["2003::1", "2400::1", "3fff:1000::"]),
        (Loopback, &["127.0.0.1", "127.0.0.0", "127.255.255.255", "::1"]),
        (
            Private,
            &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
        ),
        (Private, &["fc00::", "fd12:3456::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
        (Shared, &["100.64.0.0", "100.127.255.255"]),
        (LinkLocal, &["169.254.0.0", "169.254.255.255", "fe80::1", "febf:ffff::"]),
        (Metadata, &["169.254.169.254", "169.254.170.2", "169.254.0.23", "100.100.100.200", "192.0.0.192"]),
        (Metadata, &["168.63.129.16", "fd00:ec2::254", "fd20:ce::254"]),
        (Unspecified, &["0.0.0.0", "0.255.255.255", "::"]),
        (Broadcast, &["255.255.255.255"]),
        (Multicast, &["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1", "ffff::"]),
        (
            Documentation,
            &["192.0.2.0", "198.51.100.1", "203.0.113.255", "2001:db8::", "2001:db8:ffff::", "3fff::1"],
        ),
        (Documentation, &["3fff:fff:ffff::"]),
        (Benchmark, &["198.18.0.0", "198.19.255.255", "2001:2::", "2001:2:0:ffff::"]),
        // Mapped, compatible, translated, NAT64 (well-known and local-use), 6to4 and its relay, Teredo.
        (
            Transition,
            &["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::2", "::ffff:0:10.0.0.1"],
        ),
        (Transition, &["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::", "64:ff9b:1:ffff::a00:1"]),
        (Transition, &["2002::", "2002:7f00:1::", "2001::", "2001:0:ffff::1", "192.88.99.1"]),
        (
            Reserved,
            &[
                "192.0.0.0",
                "192.0.0.255",
                "240.0.0.0",
                "255.255.255.254",
                "100::1",
                "2001:10::",
                "2001:1ff::",
            ],
        ),
        (Reserved, &["4000::", "5f00::1", "fec0::1", "64:ff9c::", "1::", "e000::", "2001:20::1"]),
    ];
    for (class, addresses) in table {
        for address in *addresses {
            assert_eq!(AddressClass::of(address.parse().unwrap()), *class, "{address}");
        }
    }
}

#[test]
fn only_globally_routed_unicast_is_public() {
    assert!(Public.is_public());
    for class in [Loopback, Private, Shared, LinkLocal, Metadata, Unspecified, Broadcast, Multicast] {
        assert!(!class.is_public(), "{class}");
    }
    for class in [Documentation, Benchmark, Transition, Reserved] {
        assert!(!class.is_public(), "{class}");
    }
}
