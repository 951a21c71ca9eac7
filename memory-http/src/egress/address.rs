//! The class of an address: public, or reachable only from this machine or network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of network an address belongs to. All but [`AddressClass::Public`] are refused unless the operator listed
/// the host.
///
/// Based on the IANA special-purpose registries for IPv4 and IPv6, and the addresses of clouds' credential services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AddressClass {
    /// Globally routed unicast.
    Public,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`, `fc00::/7`.
    Private,
    /// `100.64.0.0/10`, shared by the customers of a carrier.
    Shared,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Credential services of clouds: `169.254.169.254`, `fd00:ec2::254` and the like.
    Metadata,
    /// `0.0.0.0/8`, `::`.
    Unspecified,
    /// `255.255.255.255`.
    Broadcast,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `192.0.2.0/24`, `198.51.100.0/24`, `203.0.113.0/24`, `2001:db8::/32`, `3fff::/20`.
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmark,
    /// IPv6 that carries an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo. Always refused, since the translator
    /// is unknown.
    Transition,
    /// Everything else that is not globally routed unicast.
    Reserved,
}

impl AddressClass {
    /// The class of `address`.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// True for [`AddressClass::Public`].
    #[must_use]
    pub fn is_public(self) -> bool {
        self == Self::Public
    }

    /// Whether not even a listed name may resolve to it: no operator's service has such an address, but a forged DNS
    /// answer may. A host listed by this very address is still allowed.
    pub(crate) fn is_never_meant(self) -> bool {
        matches!(
            self,
            Self::Metadata
                | Self::LinkLocal
                | Self::Unspecified
                | Self::Broadcast
                | Self::Multicast
                | Self::Transition
        )
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared (carrier)",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Unspecified => "unspecified",
            Self::Broadcast => "broadcast",
            Self::Multicast => "multicast",
            Self::Documentation => "documentation",
            Self::Benchmark => "benchmark",
            Self::Transition => "IPv4-in-IPv6",
            Self::Reserved => "reserved",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        // AWS, GCP, Azure and most others; AWS ECS; Tencent; Alibaba; Oracle; Azure's wire server.
        [169, 254, 169, 254] | [169, 254, 170, 2] | [169, 254, 0, 23] => AddressClass::Metadata,
        [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => AddressClass::Metadata,
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::Shared,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [198, 18..=19, ..] => AddressClass::Benchmark,
        // The 6to4 relay.
        [192, 88, 99, _] => AddressClass::Transition,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [192, 0, 0, _] | [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // Compatible, mapped, translated (SIIT); NAT64 well-known and local-use; Teredo; 6to4.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            AddressClass::Transition
        }
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => AddressClass::Transition,
        [0x2001, 0, ..] | [0x2002, ..] => AddressClass::Transition,
        // AWS and GCP.
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254] => {
            AddressClass::Metadata
        }
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressClass::Documentation,
        [0x2001, 2, 0, ..] => AddressClass::Benchmark,
        // Other protocol assignments of the IETF, including ORCHID.
        [0x2001, 0..=0x01ff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}
