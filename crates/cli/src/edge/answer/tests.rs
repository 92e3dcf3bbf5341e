use super::*;

fn request(approved: bool, declined: bool) -> Request {
    Request { uid: "u".into(), approved, declined, ..Request::default() }
}

#[test]
fn an_answer_changes_only_what_is_not_so_already() {
    let approve = change(&request(false, true), Verdict::Approve).unwrap();
    assert_eq!(approve["spec"]["approved"], true);
    assert_eq!(approve.pointer("/metadata/annotations").unwrap(), &json!({ DECLINED: null }));
    assert_eq!(approve["metadata"]["uid"], "u", "it is the request that was seen");
    let decline = change(&request(true, false), Verdict::Decline).unwrap();
    assert_eq!(decline.pointer("/metadata/annotations").unwrap(), &json!({ DECLINED: "true" }));
    assert!(decline.get("spec").is_none());
    assert_eq!(change(&request(true, false), Verdict::Approve), Err("it is approved already"));
    assert_eq!(change(&request(false, true), Verdict::Decline), Err("it is declined already"));
    let going = Request { being_deleted: true, ..request(false, false) };
    assert!(change(&going, Verdict::Approve).is_err());
}
