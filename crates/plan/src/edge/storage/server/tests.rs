use flashjob_api::edge::EdgeReason;

use super::*;
use crate::edge::configuration::{Closed, NOT_READABLE, Namespace};

const PUMP: Place<'_> = Place { namespace: "default", name: "pump-7", uid: "u1" };
const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hunter2")];

/// What ConfigMaps say counts.
fn inside() -> Server {
    Server { route: Route::None, ..Server::default() }
}

/// As NooBaa makes them: the host is one of the cluster's inside, and there is no region.
fn noobaa() -> Namespace {
    let data = [
        ("BUCKET_NAME", "pump-7-5f1c"),
        ("BUCKET_HOST", "s3.openshift-storage.svc"),
        ("BUCKET_PORT", "443"),
        ("BUCKET_REGION", ""),
        ("BUCKET_SUBREGION", ""),
    ];
    Namespace::default().secret("pump-7", &KEYS).config_map("pump-7", &data)
}

fn read(namespace: &Namespace, server: &Server) -> Claimed {
    Claim::Bound.read(PUMP, server, namespace, None)
}

/// Why there is no bucket.
fn why(namespace: &Namespace, server: &Server) -> String {
    let Claimed { bucket, said, unread } = read(namespace, server);
    assert_eq!((bucket, unread), (None, false));
    let problem = said.unwrap().unwrap_err();
    assert_eq!(problem.reason, EdgeReason::BucketPending);
    problem.message
}

#[test]
fn a_bound_claim_says_which_bucket_it_is() {
    let claimed = read(&noobaa(), &inside());
    assert_eq!((claimed.said, claimed.unread), (Some(Ok(())), false));
    let bucket = claimed.bucket.unwrap();
    assert_eq!((bucket.host.as_str(), bucket.port), ("s3.openshift-storage.svc", 443));
    assert_eq!((bucket.name.as_str(), bucket.region.as_str()), ("pump-7-5f1c", "ignore"));
    assert_eq!((bucket.access_key, bucket.secret_key), (b"id".to_vec(), b"hunter2".to_vec()));
    assert_eq!(bucket.ca, b"");
}

#[test]
fn the_address_that_edge_was_started_with_comes_first() {
    let address = Some("s3.example.com:9000".parse().unwrap());
    let server = Server { address, ca: b"PEM".into(), ..Server::default() };
    let bucket = read(&noobaa(), &server).bucket.unwrap();
    assert_eq!((bucket.host.as_str(), bucket.port), ("s3.example.com", 9000));
    assert_eq!(bucket.ca, b"PEM");
    // And then the ConfigMap needs none.
    let bare = noobaa().config_map("pump-7", &[("BUCKET_NAME", "b"), ("BUCKET_REGION", "eu")]);
    let bucket = read(&bare, &server).bucket.unwrap();
    assert_eq!((bucket.name.as_str(), bucket.region.as_str()), ("b", "eu"));
    assert!(why(&bare, &inside()).contains("BUCKET_HOST"));
}

#[test]
fn the_address_is_by_flag_or_route_or_config_map_in_this_order() {
    let told = || Some("s3.example.com:9000".parse().unwrap());
    let route = || Route::with_host(Some("s3.apps.example.com"));
    for (address, route, wanted) in [
        (told(), route(), ("s3.example.com", 9000)),
        (told(), Route::Unknown, ("s3.example.com", 9000)),
        (told(), Route::WithoutHost, ("s3.example.com", 9000)),
        (None, route(), ("s3.apps.example.com", 443)),
        (None, Route::None, ("s3.openshift-storage.svc", 443)),
    ] {
        let server = Server { address, route, ca: b"PEM".into() };
        let bucket = read(&noobaa(), &server).bucket.unwrap();
        assert_eq!((bucket.host.as_str(), bucket.port), wanted, "{server:?}");
        assert_eq!((bucket.name.as_str(), bucket.ca.as_slice()), ("pump-7-5f1c", &b"PEM"[..]));
    }
    for (route, words) in [
        (Route::Unknown, "whether the Route openshift-storage/s3 is there is not known yet"),
        (Route::WithoutHost, "the Route openshift-storage/s3 has no host that can be used"),
    ] {
        assert!(why(&noobaa(), &Server { route, ..Server::default() }).ends_with(words));
    }
}

#[test]
fn what_is_missing_is_named() {
    let none = inside();
    let mut namespace = noobaa();
    namespace.secrets.clear();
    assert!(why(&namespace, &none).ends_with("there is no Secret default/pump-7"));
    namespace.config_maps.clear();
    assert!(why(&namespace, &none).ends_with("there is no ConfigMap default/pump-7"));
    for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        for wrong in [None, Some(Vec::new()), Some(vec![b'x'; LONGEST + 1])] {
            let mut namespace = noobaa();
            let data = &mut namespace.secrets.get_mut("pump-7").unwrap().data;
            data.remove(key);
            data.extend(wrong.map(|wrong| (key.to_owned(), wrong)));
            let said = why(&namespace, &none);
            assert!(said.contains(key) && !said.contains("hunter2"), "{said}");
        }
    }
    for (key, wrong) in [("BUCKET_NAME", " "), ("BUCKET_HOST", ""), ("BUCKET_PORT", "0")] {
        let mut namespace = noobaa();
        let data = &mut namespace.config_maps.get_mut("pump-7").unwrap().data;
        data.insert(key.into(), wrong.into());
        assert!(why(&namespace, &none).contains(key));
    }
}

#[test]
fn what_was_not_read_yet_is_waited_for() {
    for claimed in [
        read(&noobaa().unread("pump-7"), &inside()),
        read(&Namespace::default().unread("pump-7"), &inside()),
    ] {
        assert_eq!(claimed, Claimed { unread: true, ..Claimed::default() });
    }
}

#[test]
fn what_may_not_be_read_has_its_place_in_the_bucket() {
    let address = Some("s3.example.com".parse().unwrap());
    let server = Server { address, ..Server::default() };
    for (server, host, port) in [(inside(), NOT_READABLE, 0), (server, "s3.example.com", 443)] {
        let claimed = Claim::Bound.read(PUMP, &server, &Closed, None);
        assert_eq!((claimed.said, claimed.unread), (Some(Ok(())), false));
        let bucket = claimed.bucket.unwrap();
        assert_eq!((bucket.host.as_str(), bucket.port), (host, port));
        assert_eq!((bucket.name.as_str(), bucket.secret_key), (NOT_READABLE, NOT_READABLE.into()));
    }
}

#[test]
fn only_a_bound_claim_has_to_be_read_for() {
    let mut needs = Needs::default();
    Claim::Missing.needs("pump-7", &mut needs);
    assert_eq!(needs, Needs::default());
    Claim::Bound.needs("pump-7", &mut needs);
    assert!(needs.secrets.contains("pump-7") && needs.config_maps.contains("pump-7"));
}

#[test]
fn a_claim_that_could_not_be_made_says_why() {
    let refused = Problem::new(EdgeReason::BucketRefused, "exceeded quota");
    let nothing = Namespace::default();
    let read = |tried| Claim::Missing.read(PUMP, &inside(), &nothing, tried);
    assert_eq!(read(Some(&refused)).said, Some(Err(refused.clone())));
    let first = read(None).said.unwrap().unwrap_err();
    assert_eq!(first.reason, EdgeReason::BucketPending);
    let none = Claim::None.read(PUMP, &inside(), &nothing, Some(&refused));
    assert_eq!(none, Claimed::default());
}

#[test]
fn an_address_is_a_host_and_a_port_that_it_can_have() {
    for (text, wanted) in [
        ("s3.example.com", Some("s3.example.com:443")),
        ("s3.example.com:9000", Some("s3.example.com:9000")),
        ("10.0.0.1:1", Some("10.0.0.1:1")),
        ("[::1]", Some("[::1]:443")),
        ("[::1]:65535", Some("[::1]:65535")),
        ("", None),
        (":443", None),
        ("host:0", None),
        ("host:65536", None),
        ("host:", None),
        ("::1", None),
        ("[::1", None),
        ("[host]:1", None),
        ("]a:1", None),
        ("https://host", None),
        ("host/path", None),
        ("a b", None),
        ("ä", None),
    ] {
        let read = text.parse::<Address>().ok().map(|address| address.to_string());
        assert_eq!(read.as_deref(), wanted, "{text:?}");
    }
}
