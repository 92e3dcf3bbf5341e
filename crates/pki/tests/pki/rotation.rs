//! One CA takes the place of another while there are certificates of both, and nobody is shut out.

use std::slice::from_ref;

use flashjob_pki::KeyPurpose::{ClientAuth, ServerAuth};
use flashjob_pki::{Chain, PrivateKey, Profile};

use super::{ca, days, leaf, now, openssl_verify};

#[test]
fn certificates_of_both_generations_are_taken_by_those_who_trust_either() {
    let (old, new) = (ca("CA 1"), ca("CA 2"));
    // The new one, signed by the old one before its key goes.
    let cross = old.sign(&new.key().public(), &Profile::ca("CA 2", now(), days(365))).unwrap();
    let key = PrivateKey::generate().unwrap().public();
    let server = Profile { purposes: vec![ServerAuth], ..leaf("server") };
    let server = new.sign(&key, &server).unwrap();
    let [first, second] = [&old, &new].map(|ca| {
        let device = Profile { purposes: vec![ClientAuth], ..leaf("device") };
        Chain::new(ca.sign(&key, &device).unwrap(), [])
    });
    let [old, new] = [old, new].map(|ca| ca.leaf().clone());

    // A device that has slept through it knows the old CA alone.
    let shown = Chain::new(server.clone(), [cross.clone()]);
    let both = [old.clone(), new.clone()];
    for anchors in [from_ref(&old), from_ref(&new), &both] {
        shown.verify(anchors, ServerAuth, now()).unwrap();
        let anchors: String = anchors.iter().map(|anchor| anchor.pem()).collect();
        openssl_verify(&anchors, &cross.pem(), &server.pem(), "sslserver").unwrap();
    }
    // Without the cross certificate it would not know the server.
    Chain::new(server.clone(), []).verify(from_ref(&old), ServerAuth, now()).unwrap_err();
    openssl_verify(&old.pem(), "", &server.pem(), "sslserver").unwrap_err();

    // The server trusts both until the old one is retired.
    for device in [&first, &second] {
        device.verify(&both, ClientAuth, now()).unwrap();
    }
    first.verify(from_ref(&new), ClientAuth, now()).unwrap_err();
    second.verify(from_ref(&new), ClientAuth, now()).unwrap();
}
